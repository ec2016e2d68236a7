import TransportAPI

@testable import Protocols
@testable import Transports

/// The accepting side: nothing forged costs memory or is answered with more than came, no network has more than its part, and
/// only who has been silent gives way to a newcomer.
func fuzzUDPListener(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var listener = try FuzzedListener(&input)
    while let what = input.next() { try listener.step(what, &input) }
}

/// A listener, and what is to be known of its sessions.
private struct FuzzedListener: ~Copyable {
    private struct Session {
        var network: Int
        var heardAt: Instant
        var hasSpoken = false
    }

    private let configuration: UDPConfiguration
    private var listener: UDPListenerCore
    private var random = RandomSource.seeded(9)
    private var now = Instant.zero
    private var sessions: [UInt64: Session] = [:]
    private var reply = ByteBuffer()

    init(_ input: inout FuzzInput) throws {
        var configuration = UDPConfiguration(isPlain: input.flag())
        configuration.acceptsReliable = input.flag()
        // Of 128 sessions, two of a network are many.
        configuration.maximumSessions = input.choice(of: [3, 128])
        configuration.maximumPerAddress = input.choice(of: [nil, 1, 2])
        self.configuration = configuration
        listener = try UDPListenerCore(configuration, random: &random)
    }

    mutating func step(_ what: UInt8, _ input: inout FuzzInput) throws {
        let (sender, network) = (what & 15, Int(what & 3))
        var datagram = ByteBuffer()
        switch what >> 4 & 7 {
        case 7:
            now = now.advanced(by: what & 8 == 0 ? .milliseconds(300) * Int(what & 7) : .seconds(20) * Int(what & 7))
        case 6: if let session = sessions.keys.min() { forget(session) }
        case 5: listener.hasRoom.toggle()
        case 4: if let session = sessions.keys.min() { Datagram.append(.ping, session, 1, to: &datagram) }
        default: break
        }
        if datagram.isEmpty {
            if what & 0x80 != 0, let cookie = reply.integer(at: Datagram.identifiedSize, as: UInt64.self) {
                // An honest client, which returns its cookie.
                let nonce = reply.integer(at: Datagram.wordSize, as: UInt64.self) ?? 0
                Datagram.append(.confirm, nonce, cookie, to: &datagram)
            } else {
                datagram.append(contentsOf: input.record())
            }
        }
        let isFull = try ask(datagram, sender, network)
        guard isFull, let session = try whoGivesWay() else { return }
        forget(session)
        try ensure(try !ask(datagram, sender, network), "it is full with \(sessions.count) sessions")
    }

    /// Gives the listener a datagram, and judges what it decides; whether there was no room.
    private mutating func ask(_ datagram: borrowing ByteBuffer, _ sender: UInt8, _ network: Int) throws -> Bool {
        let size = datagram.count
        let decision = listener.receive(
            datagram,
            from: [sender],
            network: network,
            now: now,
            random: &random,
            reply: &reply
        )
        try ensure(datagram.count == size, "the datagram has changed")
        var reason: UDPListenerCore.DropReason?
        switch decision {
        case .reply(let why):
            try ensure(reply.count > 0 && reply.count < size, "\(reply.count) bytes answer \(size)")
            reason = why
        case .accept(let core):
            var run = CoreRun(core, inputLimit: 0)
            try run.feed(datagram.bytes(at: 0, count: size) ?? [])
            try ensure(run.events.first == .opened, "an accepted session does not open")
            try ensure(listener.hasRoom, "a session that nobody has room for")
            sessions[core.connectionID] = Session(network: network, heardAt: now)
        case .session(let session):
            try ensure(sessions[session] != nil, "a session that is none")
            if configuration.isPlain || Datagram.kind(of: datagram) != .confirm {
                sessions[session]?.heardAt = now
                sessions[session]?.hasSpoken = true
            }
        case .drop(let why): reason = why
        }
        let ofNetwork = sessions.values.count { $0.network == network }
        let most = configuration.maximumPerAddress ?? .max
        try ensure(ofNetwork <= most, "\(ofNetwork) sessions from one network")
        try ensure(reason != .crowded || ofNetwork == most, "crowded with \(ofNetwork)")
        try ensure(reason != .backlog || !listener.hasRoom, "a backlog where there is room")
        let isFull = sessions.count == configuration.maximumSessions
        try ensure(reason != .full || isFull, "full with \(sessions.count)")
        try ensure(listener.sessionCount == sessions.count, "\(listener.sessionCount), not \(sessions.count)")
        try ensure(sessions.count <= configuration.maximumSessions, "\(sessions.count) sessions")
        return reason == .full
    }

    /// Somebody who has been silent for a second, or a tenth less, for times are not kept more exactly; first who has
    /// said nothing.
    private func whoGivesWay() throws -> UInt64? {
        func silence(_ session: Session) -> Int64 { now.nanoseconds - session.heardAt.nanoseconds }
        let silent = sessions.values.filter { silence($0) >= SessionTable.minimumSilence }
        guard let id = listener.mostSilent(now) else {
            let mayAllStay = silent.count < sessions.count || configuration.isPlain && silent.allSatisfy(\.hasSpoken)
            try ensure(mayAllStay, "nobody gives way")
            return nil
        }
        guard let session = sessions[id] else { throw FuzzFailure(description: "who gives way is none") }
        try ensure(silence(session) >= 900_000_000, "it gives way after \(silence(session)) ns")
        try ensure(!session.hasSpoken || silent.allSatisfy(\.hasSpoken), "somebody else has said nothing")
        try ensure(!session.hasSpoken || !configuration.isPlain, "a plain session that has spoken gives way")
        return id
    }

    private mutating func forget(_ session: UInt64) {
        sessions[session] = nil
        listener.remove(session, now: now)
    }
}
