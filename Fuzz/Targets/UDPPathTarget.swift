import TransportAPI

@testable import Protocols
@testable import Transports

/// A session whose datagrams come from anywhere: nobody but who has proved to receive them gets more than three times what
/// came from there, and nobody else for longer than he may take to prove it.
func fuzzUDPPath(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var path = PathValidator<UInt8>(0)
    var random = RandomSource.seeded(3)
    var now = Instant.zero
    var ledger = PathLedger()
    while let what = input.next() {
        let (sender, argument) = (what & 3, input.next() ?? 0)
        switch what >> 2 & 7 {
        case 0, 1:
            let kinds: [Datagram.Kind] = [.packet, .data, .ping, .bye]
            let number = UInt64(argument >> 2)
            try hear(kinds[Int(argument & 3)], number, sender)
        case 2: try hear(.pong, path.token.map { argument & 1 == 0 ? $0 : $0 ^ UInt64(argument) } ?? 1, sender)
        case 3:
            var datagram = ByteBuffer()
            datagram.append(contentsOf: input.record())
            try hear(datagram, sender)
        case 4: now = now.advanced(by: .milliseconds(Int(argument) * 20))
        case 5: if path.question(now) != nil { ledger.sent += Datagram.pairSize }
        default:
            let size = Int(argument) * 8
            if path.maySend(size, now), !path.isValidated { ledger.sent += size }
        }
        _ = path.maySend(0, now)
        try ledger.check(path, now)
    }

    func hear(_ kind: Datagram.Kind, _ number: UInt64, _ sender: UInt8) throws {
        var datagram = ByteBuffer()
        // The number of a message has half the bytes.
        Datagram.append(kind, 7, kind == .data ? number << 32 : number, to: &datagram)
        if kind == .packet { datagram.append(0) }
        try hear(datagram, sender)
    }

    func hear(_ datagram: borrowing ByteBuffer, _ sender: UInt8) throws {
        // What has taken too long is over before the datagram counts.
        _ = path.maySend(0, now)
        let former = path.token
        let answers = Datagram.kind(of: datagram) == .pong && Datagram.number(of: datagram) == former
        if former != nil, answers, sender == path.address { ledger.proved.insert(sender) }
        let question = path.heard(datagram, from: sender, now, &random)
        if path.token != former { ledger.begin(now) }
        if path.token != nil, sender == path.address { ledger.received += datagram.count }
        if let question {
            try ensure(question == path.token && question >> 63 == 1, "a question with the token \(question)")
            ledger.sent += Datagram.pairSize
        }
    }
}

/// What the present address has sent and got, counted apart.
private struct PathLedger {
    var received = 0
    var sent = 0
    var proved: Set<UInt8> = [0]
    private var since = Instant.zero

    mutating func begin(_ now: Instant) {
        (received, sent, since) = (0, 0, now)
    }

    func check(_ path: PathValidator<UInt8>, _ now: Instant) throws {
        guard !path.isValidated else {
            return try ensure(proved.contains(path.address), "\(path.address) has proved nothing")
        }
        try ensure(sent <= 3 * received, "\(sent) bytes went where \(received) came from")
        try ensure(now < since.advanced(by: .seconds(3)), "it goes to \(path.address) without proof")
    }
}
