@testable import Primitives
@testable import Protocols
@testable import SocketIO
@testable import Transports

/// The loop of all runs, because a loop is never freed.
private let loop = SteppedPoller.loop()

/// Runs the server or the client of DTLS around an engine without encryption, against an untrusted peer that sends from
/// any address. The messages of an established connection must not depend on that peer.
func fuzzDTLS(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    // Timers are set on the loop.
    loop.ownership.take()
    defer { loop.ownership.giveBack() }
    if input.flag() { try fuzzDTLSClient(&input) } else { try fuzzDTLSServer(&input) }
}

/// Lets the loop process everything that can run now.
private func settle() throws {
    loop.ownership.giveBack()
    defer { loop.ownership.take() }
    for _ in 0..<10_000 where loop.nextStep == .min { loop.step() }
    try ensure(loop.nextStep != .min, "the loop does not come to rest")
}

/// The type of a record that an untrusted peer sends, and whether it claims to be encrypted.
private func forgedRecord(_ kind: UInt8, _ body: [UInt8]) -> [UInt8] {
    let length = [UInt8(truncatingIfNeeded: body.count >> 8), UInt8(truncatingIfNeeded: body.count)]
    return [20 + (kind & 3), 0xfe, 0xfd, 0, kind >> 2 & 1, 0, 0, 0, 0, 0, kind >> 3] + length + body
}

// MARK: The server

private func fuzzDTLSServer(_ input: inout FuzzInput) throws {
    let run = try FuzzedDTLSServer(opensHonestly: input.flag())
    while let what = input.next() { try run.step(what, &input) }
    try run.end()
}

/// A server with one honest client, and an untrusted peer that has several addresses and may send in the name of the
/// honest client.
private final class FuzzedDTLSServer {
    private static let handshakes = 4
    /// More steps reach no more states, and make a run slow.
    private static let longestHistory = 64

    private let census = FakeDatagramEngine.Census()
    private let addresses: [SocketAddress]
    private let server: DTLSServer
    private var engines: UInt64 = 1
    private var client: DTLSAssociation?
    private var isOpen = false
    /// The datagrams that the server has sent to each address and that were not taken.
    private var answers: [SocketAddress: [[UInt8]]] = [:]
    /// The cookies that the server has sent to each address.
    private var cookies: [SocketAddress: [[UInt8]]] = [:]
    /// How many datagrams had a cookie that the server has sent to their address.
    private var returned = 0
    /// The datagrams that the honest client has written and that did not arrive, and all that it has written.
    private var written: [[UInt8]] = []
    private var history: [[UInt8]] = []
    private var messages: UInt8 = 0
    private var expected: [[UInt8]] = []
    private var received: [[UInt8]] = []
    private var honest: SocketAddress { addresses[0] }

    init(opensHonestly: Bool) throws {
        addresses = (0..<4).compactMap { SocketAddress(numeric: "127.0.0.1", port: 5000 + $0) }
        let limits = DTLSServer.Limits(
            handshakes: Self.handshakes,
            handshakeTimeout: .seconds(10),
            sessionTimeout: .seconds(10)
        )
        let owner = Owner()
        let census = census
        server = DTLSServer(
            limits,
            on: loop,
            makeEngine: { FakeDatagramEngine(.server, owner.run?.nextEngine() ?? 0, census) },
            transmit: { datagram, address in
                owner.run?.answers[address, default: []].append(Array(datagram))
                return .bytes(datagram.count)
            }
        )
        owner.run = self
        server.onDatagram = { content, client, _ in owner.run?.arrive(&content, client) }
        if opensHonestly { try open() }
    }

    /// The run, which the server does not keep alive.
    private final class Owner {
        weak var run: FuzzedDTLSServer?
    }

    private func nextEngine() -> UInt64 {
        engines += 1
        return engines
    }

    private func arrive(_ content: inout ByteBuffer, _ sender: DTLSClient) {
        if sender.address == honest { received.append(content.bytes(at: 0, count: content.count) ?? []) }
        content.removeAll()
    }

    /// Opens the honest client's connection, without any loss.
    private func open() throws {
        guard client == nil else { return }
        answers[honest] = nil
        let engine = FakeDatagramEngine(.client, nextEngine(), census)
        let association = DTLSAssociation(engine, on: loop) { [unowned self] datagram in
            written.append(Array(datagram))
            return .bytes(datagram.count)
        }
        client = association
        _ = association.handshake(UnsafeRawBufferPointer(start: nil, count: 0))
        for _ in 0..<6 where !association.isOpen {
            for datagram in written.removeAllAndReturn() { try deliver(datagram, from: honest) }
            for answer in answers.removeValue(forKey: honest) ?? [] {
                _ = answer.withUnsafeBytes { association.handshake($0) }
            }
        }
        try ensure(association.isOpen, "an honest client does not get in")
        guard let peer = server.client(at: honest) else {
            throw FuzzFailure(description: "the server does not know its client")
        }
        server.opened(1, of: peer)
        isOpen = true
    }

    func step(_ what: UInt8, _ input: inout FuzzInput) throws {
        let address = addresses[Int(what & 3)]
        switch what >> 2 & 15 {
        case 0: try deliver(input.record(), from: address)
        case 1: try deliver(forgedRecord(input.choice(), input.record()), from: address)
        case 2: try open()
        case 3, 4, 5: send(input.record())
        case 6: if !written.isEmpty { try deliverHonest(written.removeFirst()) }
        case 7: if let last = written.popLast() { try deliverHonest(last) }
        case 8:
            // Two datagrams arrive as one, with forged bytes behind them.
            guard isOpen, written.count > 1 else { break }
            let both = written.removeFirst() + written.removeFirst() + input.record()
            try deliverHonest(both)
        case 9: if !history.isEmpty { try deliver(history[Int(what >> 6) % history.count], from: address) }
        case 10:
            // One changed bit.
            guard var datagram = history.last, !datagram.isEmpty else { break }
            let place = Int(input.next() ?? 0) % datagram.count
            datagram[place] ^= 1 << (what >> 6)
            try deliver(datagram, from: address)
        case 11: try hello(from: address, input.next() ?? 0, cookie: [])
        case 12, 13:
            // The peer receives datagrams at its own addresses only.
            let known = address == honest ? nil : cookies[address]?.last
            try hello(from: address, input.next() ?? 0, cookie: known ?? [1, 2, 3, 4, 5, 6, 7, 8])
        case 14: try settle()
        default: try answer()
        }
    }

    /// The honest client writes a message.
    private func send(_ bytes: [UInt8]) {
        guard let client, isOpen, history.count < Self.longestHistory else { return }
        messages += 1
        let before = written.count
        let message = [messages] + bytes
        _ = message.withUnsafeBytes { client.write($0) }
        history += written[before...]
        expected.append(message)
    }

    /// A message of the server, which the honest client reads.
    private func answer() throws {
        guard isOpen, let client, let peer = server.client(at: honest) else { return }
        answers[honest] = nil
        let message: [UInt8] = [1, 2, 3]
        _ = message.withUnsafeBytes { peer.association?.write($0) }
        for datagram in answers.removeValue(forKey: honest) ?? [] {
            var target = [UInt8](repeating: 0, count: 64)
            let step = datagram.withUnsafeBytes { bytes in
                target.withUnsafeMutableBytes { client.read(bytes, into: $0) }
            }
            guard case .done = step.end else { throw FuzzFailure(description: "the client cannot read an answer") }
            try ensure(Array(target.prefix(step.count)) == message, "the client has read another answer")
        }
    }

    private func hello(from address: SocketAddress, _ number: UInt8, cookie: [UInt8]) throws {
        let message = FakeDatagramEngine.hello(UInt64(number), cookie: cookie)
        try deliver(forgedRecord(2, message), from: address)
    }

    private func deliverHonest(_ datagram: [UInt8]) throws {
        try deliver(datagram, from: honest)
    }

    /// Passes one datagram to the server, and checks the cost.
    private func deliver(_ datagram: [UInt8], from address: SocketAddress) throws {
        guard !datagram.isEmpty else { return }
        let before = answers[address]?.count ?? 0
        let wasKnown = server.client(at: address) != nil
        let made = census.made
        if let cookie = Self.cookie(of: datagram), cookies[address]?.contains(cookie) == true { returned += 1 }
        var bytes = ByteBuffer()
        bytes.append(contentsOf: datagram)
        server.receive(bytes, from: address, false)
        // A handshake takes its steps later.
        let replies = answers[address]?.dropFirst(before) ?? []
        if !wasKnown {
            try ensure(replies.count <= 1, "\(replies.count) datagrams answer one of an unknown client")
            for reply in replies {
                try ensure(reply.count < datagram.count, "\(reply.count) bytes answer \(datagram.count)")
            }
        }
        for reply in replies where reply.count == 36 && reply[0] == 22 && reply[13] == 3 {
            cookies[address, default: []].append(Array(reply.suffix(8)))
        }
        try settle()
        try ensure(
            census.made - made <= 1 && census.made <= returned,
            "\(census.made) handshakes have begun, and \(returned) cookies were returned"
        )
        try ensure(census.alive <= Self.handshakes + 1, "the server keeps \(census.alive) engines")
        try ensure(census.mostEarly <= 8, "an engine got \(census.mostEarly) records before its keys")
        if address != honest { answers[address] = nil }
        if isOpen, answers[honest]?.count ?? 0 > 1000 { answers[honest] = nil }
    }

    /// The cookie of a ClientHello in one fragment with an empty session identifier of any length.
    private static func cookie(of datagram: [UInt8]) -> [UInt8]? {
        guard datagram.count > 60 else { return nil }
        let place = 60 + Int(datagram[59])
        guard datagram[59] <= 32, place < datagram.count, datagram[place] == 8, datagram.count >= place + 9 else {
            return nil
        }
        return Array(datagram[(place + 1)..<(place + 9)])
    }

    /// Delivers all that the honest client has written, and checks what has arrived.
    func end() throws {
        if isOpen {
            for datagram in written.removeAllAndReturn() { try deliverHonest(datagram) }
            try ensure(server.client(at: honest) != nil, "the honest client was ended")
            try ensure(
                received.sorted { $0.lexicographicallyPrecedes($1) }
                    == expected.sorted { $0.lexicographicallyPrecedes($1) },
                "\(received.count) messages have arrived, and \(expected.count) were written"
            )
            try answer()
        } else {
            try ensure(received.isEmpty, "a client without keys has sent a message")
        }
        client?.close()
        server.close()
        try settle()
        try ensure(loop.nextStep == nil, "a timer is left after close")
        try ensure(census.alive == 0, "\(census.alive) engines are left after close")
    }
}

extension Array {
    fileprivate mutating func removeAllAndReturn() -> [Element] {
        defer { removeAll() }
        return self
    }
}

// MARK: The client

/// Passes datagrams of an untrusted peer to a client, between those of its server. They come over a socket, because the
/// client has one.
private func fuzzDTLSClient(_ input: inout FuzzInput) throws {
    let run = try FuzzedDTLSClient()
    defer { run.close() }
    if input.flag() { try run.open(hasSucceeded: true) }
    while let what = input.next() { try run.step(what, &input) }
    try run.end()
    run.close()
    try settle()
    try ensure(loop.nextStep == nil, "a timer is left after close")
}

private final class FuzzedDTLSClient {
    private static let mostMessages = 64

    private let socket: DatagramSocket
    private let batch = DatagramBatch(largest: 8192)
    private let channel: DTLSChannel
    private let server: FakeDatagramEngine
    private let census = FakeDatagramEngine.Census()
    private var peer: SocketAddress?
    private var isOpen = false
    private var hasEnded = false
    private var history: [[UInt8]] = []
    private var expected: [[UInt8]] = []
    private var received: [[UInt8]] = []

    init() throws {
        guard let any = SocketAddress(numeric: "127.0.0.1", port: 0) else {
            throw FuzzFailure(description: "there is no loopback address")
        }
        let socket = try DatagramSocket(boundTo: any, on: loop)
        self.socket = socket
        guard let address = socket.local else { throw FuzzFailure(description: "the socket has no address") }
        channel = try DTLSChannel(
            to: address,
            FakeDatagramEngine(.client, 1, census),
            largest: 8192,
            hasPings: true,
            deadline: MonotonicClock.now() + 60_000_000_000,
            on: loop
        ) { () throws(SystemError) in try DatagramSocket(connectedTo: address, on: loop) }
        server = FakeDatagramEngine(.server, 2, census)
        try advance()
    }

    /// Lets the client process what has come.
    private func advance() throws {
        channel.note(.read)
        for _ in 0..<1000 where !isOpen && !hasEnded {
            switch channel.advance() {
            case .again: continue
            case .waiting: return
            case .ready: isOpen = true
            case .failed: hasEnded = true
            }
        }
        try ensure(isOpen || hasEnded, "the handshake of the client does not wait")
        guard isOpen else { return }
        var content = [UInt8](repeating: 0, count: DTLS.largestRecord)
        for _ in 0..<1000 {
            switch content.withUnsafeMutableBytes({ channel.read(into: $0) }) {
            case .bytes(let count): received.append(Array(content[..<count]))
            case .wouldBlock:
                if channel.isDrained(afterReading: 0, of: 0) { return }
                try settle()
            case .end, .failed, .insecure: throw FuzzFailure(description: "an open client has ended")
            }
        }
        throw FuzzFailure(description: "the client does not stop reading")
    }

    /// Passes what the client has sent to the server's engine, behind a cookie.
    ///
    /// - Parameter hasSucceeded: whether the connection must be open then.
    func open(hasSucceeded: Bool = false) throws {
        let request: [UInt8] =
            [22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 3, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 11, 0xfe, 0xff, 8]
            + [1, 2, 3, 4, 5, 6, 7, 8]
        try take()
        try send(request)
        for _ in 0..<4 where !isOpen && !hasEnded { try take { try self.pass($0) } }
        try ensure(isOpen || !hasSucceeded, "an honest server does not open the connection")
    }

    private func take(_ body: ([UInt8]) throws -> Void = { _ in }) throws {
        guard case .bytes = socket.receive(into: batch) else { return }
        var datagrams: [[UInt8]] = []
        while let datagram = batch.takeNext({ Array($0) }) {
            datagrams.append(datagram)
            peer = batch.lastSender
        }
        for datagram in datagrams { try body(datagram) }
    }

    private func pass(_ datagram: [UInt8]) throws {
        for answer in output({ output in datagram.withUnsafeBytes { _ = server.handshake($0, &output) } }) {
            try send(answer)
        }
    }

    private func output(_ call: (inout TLSOutput) -> Void) -> [[UInt8]] {
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { memory in
            var output = TLSOutput(memory)
            call(&output)
            var datagrams: [[UInt8]] = []
            output.forEachDatagram { datagrams.append(Array($0)) }
            return datagrams
        }
    }

    private func send(_ datagram: [UInt8]) throws {
        guard let peer else { return }
        _ = datagram.withUnsafeBytes { socket.send($0, to: peer) }
        try advance()
    }

    func step(_ what: UInt8, _ input: inout FuzzInput) throws {
        try take { if !self.isOpen { try self.pass($0) } }
        try settle()
        guard !hasEnded else { return }
        switch what & 7 {
        case 0: try send(input.record())
        case 1: try send(forgedRecord(input.choice(), input.record()))
        case 2: try open()
        case 3, 4: try send(message(input.record()))
        case 5:
            // Two datagrams arrive as one, with forged bytes behind them.
            try send(message([1]) + message([2]) + input.record())
        case 6: if !history.isEmpty { try send(history[Int(what >> 3) % history.count]) }
        default:
            // The alert of a server that does not know the client.
            try send([21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 10])
        }
    }

    /// The next message of the server as a datagram; empty while the connection is not open.
    private func message(_ bytes: [UInt8]) -> [UInt8] {
        guard isOpen, expected.count < Self.mostMessages else { return [] }
        let message = [UInt8(expected.count)] + bytes
        let datagrams = output { output in message.withUnsafeBytes { _ = server.write($0, &output) } }
        guard let datagram = datagrams.first else { return [] }
        expected.append(message)
        history.append(datagram)
        return datagram
    }

    func end() throws {
        try ensure(received == expected, "\(received.count) messages have arrived, and \(expected.count) were sent")
    }

    func close() {
        channel.close(abort: false)
        socket.close()
    }
}
