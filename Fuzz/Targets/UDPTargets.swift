import TransportAPI

@testable import Protocols
@testable import Transports

func fuzzUDPClient(_ bytes: [UInt8]) throws {
    try fuzzUDP(.client, bytes)
}

func fuzzUDPServer(_ bytes: [UInt8]) throws {
    try fuzzUDP(.server, bytes)
}

/// Runs one session with datagrams of any kind, with valid ones among them, and with actions of the user.
private func fuzzUDP(_ role: CoreRole, _ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = UDPConfiguration()
    configuration.reliability = input.choice(of: [.ordered, .unordered, .off])
    configuration.isPlain = input.flag() && configuration.reliability == .off
    configuration.maximumReliableSize = input.choice(of: [1000, 100_000])
    configuration.inboxMessages = input.choice(of: [1024, 2])
    configuration.confirmsReceipt = input.flag()
    let isOrdered = configuration.reliability == .ordered
    let request = configuration.reliability == .off ? nil : configuration.terms(isOrdered: isOrdered)
    let core =
        role == .client
        ? try UDPCore(client: configuration)
        : UDPCore(.server, configuration, connectionID: FuzzedDatagram.session, nonce: 3, request: request)
    var run = CoreRun(core, inputLimit: 0)
    if input.flag() { try FuzzedDatagram.open(&run, request) }
    var number: UInt64 = 0
    while let what = input.next(), !run.isOver {
        let argument = what >> 3
        switch what & 7 {
        case 0: try feed(input.record(), &run)
        case 1: try feed(FuzzedDatagram.data(UInt32(argument), input.record()), &run)
        case 2, 3:
            number = what & 7 == 2 ? number &+ 1 : number &+ UInt64(argument) &- 8
            try feed(FuzzedDatagram.packet(number, input.record()), &run)
        case 4: try feed(FuzzedDatagram.control(argument, input.next() ?? 0), &run)
        case 5: run.send(Payload([UInt8](repeating: what, count: Int(argument) * 150)))
        default:
            var slicing = Slicing.whole
            let steps: [CoreStep] = [
                .ping, .confirm, .wait(.milliseconds(40)), .wait(.seconds(3)), .wait(.seconds(70)),
            ]
            try run.perform(argument == 31 ? .close(.user) : steps[Int(argument) % steps.count], &slicing)
        }
        try run.drain()
        try check(&run, configuration)
    }
}

private func feed(_ datagram: [UInt8], _ run: inout CoreRun<UDPCore>) throws {
    if !datagram.isEmpty { try run.feed(datagram) }
}

private func check(_ run: inout CoreRun<UDPCore>, _ configuration: UDPConfiguration) throws {
    for datagram in try run.takeDatagrams() {
        let size = datagram.count
        try ensure(size <= configuration.largestDatagram, "a datagram of \(size) bytes")
    }
    guard let reliable = run.core.reliable else { return }
    try ensure(0...reliable.terms.window ~= reliable.receiver.held, "\(reliable.receiver.held) bytes are buffered")
    try ensure(reliable.receiver.waiting <= reliable.terms.window / ReliableTerms.messageCost, "too many messages")
    try ensure(reliable.sender.packets.waiting.count <= SentPackets.maximum, "too many packets")
}

/// Datagrams of the one session that the targets know.
enum FuzzedDatagram {
    static let session: UInt64 = 7

    /// Opens the session.
    static func open(_ run: inout CoreRun<UDPCore>, _ request: ReliableTerms?) throws {
        guard !run.core.configuration.isPlain else { return try run.drain() }
        guard run.core.role == .client else { return try run.feed(plain(.confirm, run.core.nonce, 1)) }
        try run.feed(plain(.retry, run.core.nonce, 1))
        guard let request else { return try run.feed(plain(.accept, run.core.nonce, session)) }
        var output = header(.welcome, run.core.nonce)
        output.append(integer: session)
        request.append(to: &output)
        try run.feed(bytes(output))
    }

    static func data(_ sequence: UInt32, _ message: [UInt8]) -> [UInt8] {
        var output = header(.data, session)
        output.append(integer: sequence)
        return bytes(output) + message
    }

    static func packet(_ number: UInt64, _ frames: [UInt8]) -> [UInt8] {
        var output = header(.packet, session)
        output.append(integer: number)
        return bytes(output) + frames
    }

    /// A control datagram: ping, pong, bye and others.
    static func control(_ which: UInt8, _ number: UInt8) -> [UInt8] {
        let kinds: [Datagram.Kind] = [.ping, .pong, .bye, .gone, .confirm, .busy]
        let kind = kinds[Int(which) % kinds.count]
        guard kind == .bye else { return plain(kind, session, kind == .gone || kind == .busy ? nil : UInt64(number)) }
        return bytes(header(kind, session)) + [3, number, 0x61]
    }

    private static func plain(_ kind: Datagram.Kind, _ identifier: UInt64, _ number: UInt64?) -> [UInt8] {
        var output = ByteBuffer()
        Datagram.append(kind, identifier, number, to: &output)
        return bytes(output)
    }

    private static func header(_ kind: Datagram.Kind, _ identifier: UInt64) -> ByteBuffer {
        var output = ByteBuffer()
        output.append(integer: kind.rawValue)
        output.append(integer: identifier)
        return output
    }

    private static func bytes(_ output: borrowing ByteBuffer) -> [UInt8] {
        output.bytes(at: 0, count: output.count) ?? []
    }
}
