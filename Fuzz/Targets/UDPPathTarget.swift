import TransportAPI

@testable import Protocols
@testable import Transports

/// Runs a session whose datagrams come from any address. An address that is not validated may get at most three times
/// the bytes that came from it, and only for the time that its validation may take.
func fuzzUDPPath(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var path = PathValidator<UInt8>(0)
    var random = RandomSource.seeded(3)
    var now = Instant.zero
    var account = PathAccount()
    while let what = input.next() {
        let (sender, argument) = (what & 3, input.next() ?? 0)
        switch what >> 2 & 7 {
        case 0, 1:
            let kinds: [Datagram.Kind] = [.packet, .data, .ping, .bye]
            let number = UInt64(argument >> 2)
            try receive(kinds[Int(argument & 3)], number, sender)
        case 2: try receive(.pong, path.token.map { argument & 1 == 0 ? $0 : $0 ^ UInt64(argument) } ?? 1, sender)
        case 3:
            var datagram = ByteBuffer()
            datagram.append(contentsOf: input.record())
            try receive(datagram, sender)
        case 4: now = now.advanced(by: .milliseconds(Int(argument) * 20))
        case 5: if path.question(now) != nil { send(Datagram.pairSize) }
        default:
            let size = Int(argument) * 8
            // The socket does not take each datagram that may be sent.
            if path.maySend(size, now), argument & 7 != 0 { send(size) }
        }
        _ = path.maySend(0, now)
        try account.check(path, now)
    }

    func receive(_ kind: Datagram.Kind, _ number: UInt64, _ sender: UInt8) throws {
        var datagram = ByteBuffer()
        // The number of a message has half as many bytes.
        Datagram.append(kind, 7, kind == .data ? number << 32 : number, to: &datagram)
        if kind == .packet { datagram.append(0) }
        try receive(datagram, sender)
    }

    func receive(_ datagram: borrowing ByteBuffer, _ sender: UInt8) throws {
        // A validation that has taken too long ends before the datagram counts.
        _ = path.maySend(0, now)
        let former = path.token
        let answers = Datagram.kind(of: datagram) == .pong && Datagram.number(of: datagram) == former
        if former != nil, answers, sender == path.address { account.proved.insert(sender) }
        let question = path.heard(datagram, from: sender, now, &random)
        if path.token != former { account.begin(now) }
        if path.token != nil, sender == path.address { account.received += datagram.count }
        if let question {
            try ensure(question == path.token && question >> 63 == 1, "a question with the token \(question)")
            send(Datagram.pairSize)
        }
    }

    func send(_ size: Int) {
        path.sent(size)
        if !path.isValidated { account.sent += size }
    }
}

/// An independent count of the bytes received from the current address and sent to it.
private struct PathAccount {
    var received = 0
    var sent = 0
    var proved: Set<UInt8> = [0]
    private var since = Instant.zero

    mutating func begin(_ now: Instant) {
        (received, sent, since) = (0, 0, now)
    }

    func check(_ path: PathValidator<UInt8>, _ now: Instant) throws {
        guard !path.isValidated else {
            return try ensure(proved.contains(path.address), "\(path.address) is not validated")
        }
        try ensure(sent <= 3 * received, "\(sent) bytes went where \(received) came from")
        try ensure(now < since.advanced(by: .seconds(3)), "\(path.address) is still used without validation")
    }
}
