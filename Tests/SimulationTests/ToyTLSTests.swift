import Primitives
import SocketIO
import Testing

@testable import Simulation

@Suite("Toy TLS library")
struct ToyTLSTests {
    /// The records that one side has sent, and what the other side has read.
    private struct Side {
        let engine: any TLSEngine
        var sent: [[UInt8]] = []
        var read: [UInt8] = []
        var isReady = false
        var isEnded = false
        var failure: TLSFailure?

        init(_ engine: any TLSEngine) {
            self.engine = engine
        }

        /// Records the end of a step, and takes the records out of the output.
        mutating func note(_ step: TLSStep, _ output: TLSOutput) {
            var rest = Array(output.memory[..<output.count])
            while rest.count >= 5 {
                let length = 5 + Int(rest[3]) << 8 + Int(rest[4])
                sent.append(Array(rest.prefix(length)))
                rest.removeFirst(length)
            }
            switch step.end {
            case .done, .needsInput, .needsOutput: break
            case .ended: isEnded = true
            case .failed(let failure): self.failure = failure
            }
        }

        mutating func call(_ body: (any TLSEngine, inout TLSOutput) -> TLSStep) -> TLSStep {
            withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { memory in
                var output = TLSOutput(memory)
                let step = body(engine, &output)
                note(step, output)
                return step
            }
        }

        /// Continues the handshake with one record, or without.
        mutating func shake(_ record: [UInt8]) {
            var record = record
            while true {
                let step = call { engine, output in record.withUnsafeBytes { engine.handshake($0, &output) } }
                record.removeFirst(step.consumed)
                if case .needsOutput = step.end { continue }
                if case .done = step.end { isReady = true }
                return
            }
        }

        /// Reads one record. A side that has failed reads nothing more, as a stream does.
        mutating func receive(_ record: [UInt8]) {
            guard failure == nil else { return }
            guard isReady else { return shake(record) }
            var record = record
            repeat {
                var target = [UInt8](repeating: 0, count: 1000)
                let step = call { engine, output in
                    record.withUnsafeBytes { input in
                        target.withUnsafeMutableBytes { engine.read(input, into: $0, &output) }
                    }
                }
                record.removeFirst(step.consumed)
                read += target.prefix(step.count)
            } while failure == nil && !isEnded && engine.pending > 0
        }

        mutating func write(_ bytes: [UInt8]) {
            var rest = bytes[...]
            while !rest.isEmpty {
                let step = call { engine, output in rest.withUnsafeBytes { engine.write($0, &output) } }
                rest = rest.dropFirst(step.count)
            }
        }

        mutating func end() {
            _ = call { engine, output in engine.end(&output) }
        }
    }

    private struct Pair {
        var client: Side
        var server: Side
        /// All bytes in both directions.
        var wire: [UInt8] = []

        init(seed: UInt64, _ change: (inout TLSSettings) -> Void = { _ in }) throws {
            let library = ToyTLS(seed: seed)
            var (client, server) = (TLSSettings(.client), TLSSettings(.server))
            change(&client)
            change(&server)
            let clientContext = try library.makeContext(client, password: nil)
            let serverContext = try library.makeContext(server, password: nil)
            self.client = Side(try #require(clientContext.makeEngine(host: "server", port: 1)))
            self.server = Side(try #require(serverContext.makeEngine(host: nil, port: 0)))
        }

        /// Passes records between the sides until none is left.
        mutating func exchange() {
            while !client.sent.isEmpty || !server.sent.isEmpty {
                for record in client.sent.take() {
                    wire += record
                    server.receive(record)
                }
                for record in server.sent.take() {
                    wire += record
                    client.receive(record)
                }
            }
        }

        mutating func shake() {
            client.shake([])
            server.shake([])
            exchange()
        }
    }

    @Test("Two sides complete each kind of handshake and exchange data, which is not on the wire")
    func exchanges() throws {
        let text = Array("the same words again and again, ".utf8)
        let message = (0..<600).flatMap { _ in text }
        for seed: UInt64 in 1...40 {
            var pair = try Pair(seed: seed) { $0.protocols = ["http/1.1"] }
            pair.shake()
            #expect(pair.client.isReady && pair.server.isReady)
            #expect(pair.client.engine.description?.applicationProtocol == "http/1.1")
            for _ in 0..<3 {
                pair.client.write(message)
                pair.server.write(message)
                pair.exchange()
            }
            #expect(pair.server.read == message + message + message && pair.client.read == pair.server.read)
            #expect(pair.client.failure == nil && pair.server.failure == nil)
            let start = Array(text.prefix(8))
            #expect(!pair.wire.indices.contains { pair.wire[$0...].starts(with: start) })
        }
    }

    @Test("The same seed gives the same bytes, and another seed gives other bytes")
    func isDeterministic() throws {
        var wires: [[UInt8]] = []
        for seed: UInt64 in [7, 7, 8] {
            var pair = try Pair(seed: seed)
            pair.shake()
            pair.client.write([UInt8](repeating: 1, count: 50_000))
            pair.exchange()
            wires.append(pair.wire)
        }
        #expect(wires[0] == wires[1] && wires[0] != wires[2])
    }

    @Test("A changed, missing, repeated or swapped record is a failure, and no byte of it is read")
    func damage() throws {
        let first = [UInt8](repeating: 1, count: 10_000), second = [UInt8](repeating: 2, count: 10_000)
        for seed: UInt64 in 1...40 {
            for change in 0...3 {
                var pair = try Pair(seed: seed)
                pair.shake()
                pair.client.write(first)
                let before = pair.client.sent.count
                pair.client.write(second)
                var records = pair.client.sent.take()
                switch change {
                case 0: records[before][5 + Int(seed) % (records[before].count - 5)] ^= 1 << (seed % 8)
                case 1: records.remove(at: before - 1)
                case 2: records.insert(records[before - 1], at: before)
                default: records.swapAt(before - 1, before)
                }
                for record in records where pair.server.failure == nil { pair.server.receive(record) }
                #expect(pair.server.failure?.problem == .brokenRecord)
                #expect(pair.server.read.count <= first.count && pair.server.read.allSatisfy { $0 == 1 })
                // The client gets an alert.
                pair.exchange()
                #expect(pair.client.failure?.problem == .brokenRecord)
            }
        }
    }

    @Test("A client refuses a server of another authority, unless it checks nothing", arguments: [true, false])
    func trust(checks: Bool) throws {
        for seed: UInt64 in 1...20 {
            var pair = try Pair(seed: seed) {
                if $0.side == .client { $0.authorities = TLSFile("other") } else { $0.certificate = TLSFile("own") }
                $0.verifiesServer = checks
            }
            pair.shake()
            #expect(pair.client.failure?.problem == (checks ? .unknownIssuer : nil))
            #expect(pair.server.failure?.problem == (checks ? .certificateRefused : nil))
            #expect(pair.client.isReady == !checks && pair.server.isReady == !checks)
        }
    }

    @Test("A server refuses a client that offers only other protocols")
    func protocols() throws {
        var pair = try Pair(seed: 3) { $0.protocols = [$0.side == .client ? "mqtt" : "http/1.1"] }
        pair.shake()
        #expect(pair.client.failure?.problem == .noCommonProtocol)
        #expect(pair.server.failure?.problem == .noCommonProtocol)
    }

    @Test("The end of one side reaches the other, which can still write")
    func ends() throws {
        var pair = try Pair(seed: 3)
        pair.shake()
        pair.client.end()
        pair.exchange()
        #expect(pair.server.isEnded && !pair.client.isEnded)
        pair.server.write([1, 2, 3])
        pair.exchange()
        #expect(pair.client.read == [1, 2, 3])
    }
}

extension Array {
    /// Removes and returns all elements.
    fileprivate mutating func take() -> [Element] {
        defer { removeAll() }
        return self
    }
}
