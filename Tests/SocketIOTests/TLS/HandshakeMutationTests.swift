import TestSupport
import Testing

@testable import SocketIO

/// Real handshakes in memory, of which one byte is flipped or from which on nothing arrives.
@Suite("TLS handshakes with changed bytes", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)))
struct HandshakeMutationTests {
    /// The kinds of handshakes.
    enum Kind: CaseIterable {
        case tls13, tls12, tls13WithClientCertificate, tls12WithClientCertificate

        var hasClientCertificate: Bool { self == .tls13WithClientCertificate || self == .tls12WithClientCertificate }
        var isTLS12: Bool { self == .tls12 || self == .tls12WithClientCertificate }

        func contexts(_ certificates: TestCertificates) throws -> Contexts {
            let server = try certificates.context(.server) {
                if hasClientCertificate { $0.clientCertificates = .required }
                $0.protocols = ["http/1.1"]
            }
            if isTLS12 { server.limitToTLS12() }
            let client = try certificates.context(.client) {
                if hasClientCertificate {
                    $0.certificate = TLSFile(certificates.client.certificate)
                    $0.key = TLSFile(certificates.client.key)
                }
                $0.protocols = ["http/1.1"]
                // A continued session would be another handshake than the one before.
                $0.resumesSessions = false
            }
            return Contexts(client: client, server: server)
        }
    }

    struct Contexts {
        let client: OpenSSLContext
        let server: OpenSSLContext

        func engine(_ side: TLSSettings.Side) throws -> any TLSEngine {
            let engine =
                side == .client ? client.makeEngine(host: "localhost", port: 1) : server.makeEngine(host: nil, port: 0)
            return try #require(engine)
        }
    }

    /// One change of the bytes in one direction.
    struct Mutation: CustomStringConvertible {
        enum Change { case none, flip, cut }

        var change: Change
        var sender: TLSSettings.Side
        var offset: Int
        /// How many bytes of each direction have passed.
        private(set) var passed: [TLSSettings.Side: Int] = [.client: 0, .server: 0]

        init(_ change: Change, _ sender: TLSSettings.Side = .client, _ offset: Int = 0) {
            (self.change, self.sender, self.offset) = (change, sender, offset)
        }

        /// Whether the byte has passed. A signature can be some bytes shorter than in the run before.
        var isDone: Bool { passed[sender, default: 0] > offset }
        var isCut: Bool { change == .cut && isDone }
        var description: String { "\(change) byte \(offset) of the \(sender)" }

        mutating func apply(_ side: TLSSettings.Side, _ bytes: inout [UInt8]) {
            let index = offset - passed[side, default: 0]
            passed[side, default: 0] += bytes.count
            guard side == sender else { return }
            switch change {
            case .none: break
            case .flip: if bytes.indices.contains(index) { bytes[index] ^= 1 << UInt8(offset % 8) }
            case .cut: if index < bytes.count { bytes.removeSubrange(max(index, 0)...) }
            }
        }
    }

    private static let toServer = [UInt8]("the client's message".utf8)
    private static let toClient = [UInt8]("the server's message".utf8)

    // MARK: Engines

    /// One engine and what it has received. It sends a message after the handshake, and ends after the peer's.
    private struct Talker {
        let engine: any TLSEngine
        let message: [UInt8]
        var input: [UInt8] = []
        var output: [UInt8] = []
        var received: [UInt8] = []
        var isOpen = false
        var hasEnded = false
        var failure: TLSFailure?
        private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)

        init(_ engine: any TLSEngine, _ message: [UInt8]) {
            (self.engine, self.message) = (engine, message)
        }

        func free() { memory.deallocate() }

        private mutating func use(_ call: (UnsafeRawBufferPointer, inout TLSOutput) -> TLSStep) -> TLSStep {
            var room = TLSOutput(memory)
            let step = input.withUnsafeBytes { call($0, &room) }
            output += UnsafeRawBufferPointer(rebasing: memory[..<room.count])
            input.removeFirst(step.consumed)
            if case .failed(let reason) = step.end { failure = reason }
            return step
        }

        /// Runs until the engine needs more input.
        mutating func run() -> Bool {
            for _ in 0..<100 {
                guard failure == nil, !hasEnded else { return true }
                if !isOpen {
                    let step = use { [engine] in engine.handshake($0, &$1) }
                    if case .needsInput = step.end { return true }
                    guard case .done = step.end else { continue }
                    isOpen = true
                    _ = use { [engine, message] _, output in message.withUnsafeBytes { engine.write($0, &output) } }
                }
                var buffer = [UInt8](repeating: 0, count: 1 << 10)
                let step = buffer.withUnsafeMutableBytes { target in
                    use { [engine] in engine.read($0, into: target, &$1) }
                }
                received += buffer.prefix(step.count)
                switch step.end {
                case .needsInput: return true
                case .ended:
                    hasEnded = true
                    _ = use { [engine] _, output in engine.end(&output) }
                default: break
                }
            }
            return false
        }
    }

    /// Runs two engines against each other. Returns what is wrong, or `nil`.
    private func talk(_ contexts: Contexts, _ mutation: inout Mutation) throws -> String? {
        var client = Talker(try contexts.engine(.client), Self.toServer)
        var server = Talker(try contexts.engine(.server), Self.toClient)
        defer {
            client.free()
            server.free()
        }
        var clientEnds = false
        for _ in 0..<100 {
            guard client.run(), server.run() else { return "an engine does not come to rest" }
            if !clientEnds, client.received == Self.toClient, server.received == Self.toServer, client.failure == nil {
                clientEnds = true
                var output = [UInt8](repeating: 0, count: 1 << 10)
                output.withUnsafeMutableBytes {
                    var room = TLSOutput($0)
                    _ = client.engine.end(&room)
                    client.output += UnsafeRawBufferPointer(rebasing: $0[..<room.count])
                }
            }
            guard !client.output.isEmpty || !server.output.isEmpty else { break }
            mutation.apply(.client, &client.output)
            mutation.apply(.server, &server.output)
            server.input += client.output
            client.input += server.output
            (client.output, server.output) = ([], [])
        }
        let isWhole = client.received == Self.toClient && server.received == Self.toServer
        if isWhole, client.hasEnded, server.hasEnded { return nil }
        if !Self.toClient.starts(with: client.received) || !Self.toServer.starts(with: server.received) {
            return "other bytes were received"
        }
        // An engine that waits for more is ended by the stream: by its end, or by the time limit of the handshake.
        let waits = [client, server].contains { $0.failure == nil && !$0.hasEnded }
        return client.failure != nil || server.failure != nil || waits ? nil : "no failure"
    }

    // A stream that ends is the same for an engine as one that waits. TLSStream recognizes the end, in the next test.
    @Test(
        "Two engines fail, or receive the same data, if any byte is flipped",
        arguments: [Kind.tls13WithClientCertificate, .tls12WithClientCertificate]
    )
    func engines(kind: Kind) throws {
        let contexts = try kind.contexts(try TestCertificates())
        var unchanged = Mutation(.none)
        #expect(try talk(contexts, &unchanged) == nil)
        var cases = 0
        var wrong: [String] = []
        for sender in [TLSSettings.Side.client, .server] {
            for offset in 0..<(unchanged.passed[sender] ?? 0) {
                var mutation = Mutation(.flip, sender, offset)
                if let problem = try talk(contexts, &mutation) { wrong.append("\(mutation): \(problem)") }
                if mutation.isDone { cases += 1 }
            }
        }
        #expect(wrong.isEmpty)
        print("\(kind): \(cases) handshakes of engines with a change")
        #expect(cases > 2000)
    }

    // MARK: Streams

    /// Runs two streams against each other. Returns what is wrong, or `nil`.
    private func connect(_ contexts: Contexts, _ mutation: inout Mutation, on loop: EventLoop) throws -> String? {
        let link = TLSLink(try contexts.engine(.client), try contexts.engine(.server), on: loop)
        defer { link.close() }
        link.client.send(Self.toServer)
        link.server.send(Self.toClient)
        link.client.end()
        link.server.end()
        let comesToRest = link.run(
            limit: 1000,
            change: { side, bytes in
                let wasCut = mutation.isCut
                mutation.apply(side, &bytes)
                if mutation.isCut, side == mutation.sender {
                    if wasCut { bytes = [] }
                    (side == .client ? link.server : link.client).below.end()
                }
            }
        )
        guard comesToRest else { return "the streams do not come to rest" }
        let isWhole = link.client.received == Self.toClient && link.server.received == Self.toServer
        if isWhole, link.client.hasEnded, link.server.hasEnded { return nil }
        // The drivers' time limits end streams that wait.
        link.cut()
        guard link.client.isOver, link.server.isOver else { return "a stream does not end with the stream below it" }
        guard Self.toClient.starts(with: link.client.received), Self.toServer.starts(with: link.server.received) else {
            return "other bytes were received"
        }
        if link.client.systemError != nil || link.server.systemError != nil { return "an error of the system" }
        guard link.client.failure != nil || link.server.failure != nil else { return "no failure" }
        for failure in [link.client.failure, link.server.failure].compactMap({ $0 }) where failure.sentence.isEmpty {
            return "a failure without a sentence"
        }
        return nil
    }

    @Test(
        "Two streams fail, or receive the same data, if any byte is flipped or the stream ends there",
        arguments: Kind.allCases
    )
    func streams(kind: Kind) throws {
        // The test of engines flips each byte of the handshakes with certificates of clients. Here they are only cut.
        let step = kind.hasClientCertificate ? 4 : 1
        let changes: [Mutation.Change] = kind.hasClientCertificate ? [.cut] : [.flip, .cut]
        let contexts = try kind.contexts(try TestCertificates())
        let loop = SteppedPoller.loop()
        var unchanged = Mutation(.none)
        #expect(try connect(contexts, &unchanged, on: loop) == nil)
        var cases = 0
        var wrong: [String] = []
        for sender in [TLSSettings.Side.client, .server] {
            for offset in stride(from: 0, to: unchanged.passed[sender] ?? 0, by: step) {
                for change in changes {
                    var mutation = Mutation(change, sender, offset)
                    if let problem = try connect(contexts, &mutation, on: loop) {
                        wrong.append("\(mutation): \(problem)")
                    }
                    if mutation.isDone { cases += 1 }
                }
            }
        }
        #expect(wrong.isEmpty)
        print("\(kind): \(cases) handshakes of streams with a change")
        #expect(cases > 2000 / step)
    }

    @Test("A handshake arrives in moves of any size", arguments: Kind.allCases, [1, 3, 5, 64, 1000])
    func sliced(kind: Kind, size: Int) throws {
        let contexts = try kind.contexts(try TestCertificates())
        let link = TLSLink(try contexts.engine(.client), try contexts.engine(.server), on: SteppedPoller.loop())
        let long = [UInt8](repeating: 7, count: 50_000)
        link.client.send(Self.toServer)
        link.server.send(long)
        link.client.end()
        link.server.end()
        #expect(link.run(size: { size }))
        #expect(link.server.received == Self.toServer && link.client.received == long)
        #expect(link.client.hasEnded && link.server.hasEnded)
        // The certificate of the peer is left.
        let (client, server) = (link.client.stream.bufferedBytes, link.server.stream.bufferedBytes)
        #expect((1..<16_384).contains(client) && (kind.hasClientCertificate ? 1..<16_384 : 0..<1).contains(server))
        #expect(link.client.stream.encryption?.applicationProtocol == "http/1.1")
        #expect(link.server.stream.encryption?.peer?.commonName == (kind.hasClientCertificate ? "ann" : nil))
        link.close()
    }
}
