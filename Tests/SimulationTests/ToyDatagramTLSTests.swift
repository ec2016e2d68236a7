import Primitives
import SocketIO
import Testing

@testable import Simulation

@Suite("Toy TLS library over datagrams")
struct ToyDatagramTLSTests {
    /// One side, and the datagrams that it has sent.
    private struct Side {
        let engine: any DatagramTLSEngine
        var sent: [[UInt8]] = []
        var read: [[UInt8]] = []
        var isReady = false
        var isEnded = false
        var failure: TLSFailure?

        init(_ engine: any DatagramTLSEngine) {
            self.engine = engine
        }

        mutating func call(_ body: (any DatagramTLSEngine, inout TLSOutput) -> TLSStep) -> TLSStep {
            withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { memory in
                var output = TLSOutput(memory)
                let step = body(engine, &output)
                output.forEachDatagram { sent.append(Array($0)) }
                switch step.end {
                case .done, .needsInput, .needsOutput: break
                case .ended: isEnded = true
                case .failed(let failure): self.failure = failure
                }
                return step
            }
        }

        mutating func receive(_ datagram: [UInt8]) {
            guard isReady else {
                let step = call { engine, output in datagram.withUnsafeBytes { engine.handshake($0, &output) } }
                if case .done = step.end { isReady = true } else { return }
                return readAll([])
            }
            readAll(datagram)
        }

        private mutating func readAll(_ datagram: [UInt8]) {
            var datagram = datagram
            while true {
                var target = [UInt8](repeating: 0, count: DTLS.largestRecord)
                let step = call { engine, output in
                    datagram.withUnsafeBytes { input in
                        target.withUnsafeMutableBytes { engine.read(input, into: $0, &output) }
                    }
                }
                datagram = []
                guard case .done = step.end else { return }
                read.append(Array(target.prefix(step.count)))
            }
        }

        mutating func write(_ message: [UInt8]) {
            _ = call { engine, output in message.withUnsafeBytes { engine.write($0, &output) } }
        }
    }

    /// A client and a server with their contexts, which keep sessions.
    private struct Pair {
        let contexts: (client: any TLSContext, server: any TLSContext)
        var client: Side
        var server: Side

        init(seed: UInt64, _ change: (inout TLSSettings) -> Void = { _ in }) throws {
            let library = ToyTLS(seed: seed)
            var (client, server) = (TLSSettings(.client), TLSSettings(.server))
            (client.isDatagram, server.isDatagram) = (true, true)
            change(&client)
            change(&server)
            try self.init((library.makeContext(client, password: nil), library.makeContext(server, password: nil)))
        }

        init(_ contexts: (client: any TLSContext, server: any TLSContext)) throws {
            self.contexts = contexts
            client = Side(try #require(contexts.client.makeDatagramEngine(host: "server", port: 1, largest: 1200)))
            server = Side(try #require(contexts.server.makeDatagramEngine(host: nil, port: 0, largest: 1200)))
        }

        /// Exchanges the cookie, and begins the handshake of the server.
        mutating func begin() {
            client.receive([])
            let request: [UInt8] = [3, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 11, 0xfe, 0xff, 8, 1, 2, 3, 4, 5, 6, 7, 8]
            client.receive([22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23] + request)
            // The server sees the hello with the cookie only.
            client.sent.removeFirst()
        }

        /// Passes datagrams until none is left.
        mutating func exchange() {
            while !client.sent.isEmpty || !server.sent.isEmpty {
                let (fromClient, fromServer) = (client.sent, server.sent)
                (client.sent, server.sent) = ([], [])
                for datagram in fromClient { server.receive(datagram) }
                for datagram in fromServer { client.receive(datagram) }
            }
        }
    }

    @Test("A handshake completes, and datagrams carry messages that are not clear on the wire", arguments: 1...20)
    func messages(seed: UInt64) throws {
        var pair = try Pair(seed: seed)
        pair.begin()
        pair.exchange()
        #expect(pair.client.isReady && pair.server.isReady)
        #expect(pair.client.engine.timeout == nil && pair.server.engine.timeout == nil)
        let message = [UInt8](repeating: 7, count: 1000)
        pair.client.write(message)
        let datagram = try #require(pair.client.sent.first)
        #expect(datagram.count == message.count + DTLS.overhead)
        #expect(!datagram.contains([UInt8](repeating: 7, count: 16)))
        pair.exchange()
        #expect(pair.server.read == [message])
    }

    @Test("A repeated or changed datagram is dropped, and the next one is read")
    func repetition() throws {
        var pair = try Pair(seed: 3)
        pair.begin()
        pair.exchange()
        for number in 0..<3 as Range<UInt8> { pair.client.write([number]) }
        var changed = pair.client.sent[1]
        changed[30] ^= 4
        for datagram in [pair.client.sent[2], pair.client.sent[0], pair.client.sent[2], changed, pair.client.sent[1]] {
            pair.server.receive(datagram)
        }
        #expect(pair.server.read == [[2], [0], [1]] && pair.server.failure == nil)
    }

    /// Runs `body` in a simulated process. Its argument lets 300 ms pass.
    private func simulating(_ body: (() -> Void) throws -> Void) throws {
        let world = SimulatedWorld(seed: 1)
        let process = world.startProcess("peer")
        try world.run(in: process) {
            try body {
                world.after(300_000_000) {}
                _ = world.run(until: world.now + 1_000_000_000, steps: 10)
            }
        }
    }

    @Test("The last flight is repeated when the peer repeats its own", arguments: 1...20)
    func lastFlight(seed: UInt64) throws {
        try simulating { passTime in
            var pair = try Pair(seed: seed)
            pair.begin()
            for _ in 0..<2 {
                for datagram in pair.client.sent.removeAllAndReturn() { pair.server.receive(datagram) }
                guard !pair.server.isReady else { break }
                for datagram in pair.server.sent.removeAllAndReturn() { pair.client.receive(datagram) }
            }
            #expect(pair.server.isReady && !pair.client.isReady)
            // The network loses it.
            pair.server.sent = []
            passTime()
            _ = pair.client.call { engine, output in engine.timeoutReached(&output) }
            pair.exchange()
            #expect(pair.client.isReady)
        }
    }

    @Test("A flight without an answer is repeated by the timer with other record numbers")
    func timer() throws {
        try simulating { passTime in
            var pair = try Pair(seed: 5)
            pair.begin()
            let first = pair.client.sent.removeAllAndReturn()
            #expect((1...200_000_000).contains(pair.client.engine.timeout ?? 0))
            _ = pair.client.call { engine, output in engine.timeoutReached(&output) }
            #expect(pair.client.sent.isEmpty)
            passTime()
            _ = pair.client.call { engine, output in engine.timeoutReached(&output) }
            #expect(pair.client.sent.count == first.count && pair.client.sent != first)
            pair.exchange()
            #expect(pair.client.isReady && pair.server.isReady)
        }
    }

    @Test("A second connection continues the session of the first, unless the server refuses")
    func resumption() throws {
        let first = try Pair(seed: 9)
        var resumed = 0
        for number in 0..<20 {
            var pair = try Pair(first.contexts)
            pair.begin()
            pair.exchange()
            let isResumed = pair.client.engine.description?.isResumed
            #expect(isResumed != nil && isResumed == pair.server.engine.description?.isResumed)
            #expect(number > 0 || isResumed == false)
            if isResumed == true { resumed += 1 }
            pair.server.write([1])
            pair.exchange()
            #expect(pair.client.read == [[1]])
        }
        #expect((5..<20).contains(resumed))
    }

    @Test("A side that has ended is reported to its peer")
    func end() throws {
        var pair = try Pair(seed: 2)
        pair.begin()
        pair.exchange()
        _ = pair.client.call { engine, output in
            engine.end(&output)
            return TLSStep(.done)
        }
        pair.exchange()
        #expect(pair.server.isEnded && pair.server.failure == nil)
    }

    @Test("A client refuses a server whose authority it does not trust, and the server learns that")
    func authority() throws {
        var pair = try Pair(seed: 4) { settings in
            if settings.side == .client { settings.authorities = TLSFile("another") }
        }
        pair.begin()
        pair.exchange()
        #expect(pair.client.failure?.problem == .unknownIssuer)
        #expect(pair.server.failure?.problem == .certificateRefused)
    }
}

extension Array {
    fileprivate mutating func removeAllAndReturn() -> [Element] {
        defer { removeAll() }
        return self
    }
}
