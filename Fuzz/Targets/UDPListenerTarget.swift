import TransportAPI

@testable import Protocols
@testable import Transports

/// Runs the accepting side. Forged datagrams must cost no memory, and no answer may be longer than the datagram. No
/// network may have more than its share of sessions, and only silent sessions may be closed for a new one.
func fuzzUDPListener(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var listener = try FuzzedListener(&input)
    while let what = input.next() { try listener.step(what, &input) }
}

/// A listener with a record of its sessions.
private struct FuzzedListener: ~Copyable {
    private struct Session {
        var network: Int
        var heardAt: Instant
        var hasReceivedBytes = false
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
        // With 128 sessions, a network may have only a few of them.
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
                // An honest client returns its cookie.
                let nonce = reply.integer(at: Datagram.wordSize, as: UInt64.self) ?? 0
                Datagram.append(.confirm, nonce, cookie, to: &datagram)
            } else {
                datagram.append(contentsOf: input.record())
            }
        }
        let isFull = try deliver(datagram, sender, network)
        guard isFull, let session = try sessionToClose() else { return }
        forget(session)
        try ensure(try !deliver(datagram, sender, network), "it is full with \(sessions.count) sessions")
    }

    /// Passes a datagram to the listener and checks its decision. Returns whether the listener was full.
    private mutating func deliver(_ datagram: borrowing ByteBuffer, _ sender: UInt8, _ network: Int) throws -> Bool {
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
            try ensure(listener.hasRoom, "a session is accepted without room")
            sessions[core.connectionID] = Session(network: network, heardAt: now)
        case .session(let session):
            try ensure(sessions[session] != nil, "the session is unknown")
            if configuration.isPlain || Datagram.kind(of: datagram) != .confirm {
                sessions[session]?.heardAt = now
                sessions[session]?.hasReceivedBytes = true
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

    /// The session that the listener closes for a new one. It must have been silent for a second, or for 0.9 s because
    /// times are kept in tenths. Sessions that have sent nothing come first.
    private func sessionToClose() throws -> UInt64? {
        func silence(_ session: Session) -> Int64 { now.nanoseconds - session.heardAt.nanoseconds }
        let silent = sessions.values.filter { silence($0) >= SessionTable.minimumSilence }
        guard let id = listener.mostSilent(now) else {
            let mayAllStay =
                silent.count < sessions.count || configuration.isPlain && silent.allSatisfy(\.hasReceivedBytes)
            try ensure(mayAllStay, "no session can be closed")
            return nil
        }
        guard let session = sessions[id] else { throw FuzzFailure(description: "the session to close is unknown") }
        try ensure(silence(session) >= 900_000_000, "it is closed after \(silence(session)) ns")
        try ensure(
            !session.hasReceivedBytes || silent.allSatisfy(\.hasReceivedBytes),
            "another session has sent nothing"
        )
        try ensure(
            !session.hasReceivedBytes || !configuration.isPlain,
            "a plain session that has sent something is closed"
        )
        return id
    }

    private mutating func forget(_ session: UInt64) {
        sessions[session] = nil
        listener.remove(session, now: now)
    }
}
