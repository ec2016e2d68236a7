import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Streams of valid parts that are sliced and damaged at random. The core never traps, gives the same results however the
/// bytes are sliced, and ends in events or in one typed error.
@Suite("WebSocket with random input")
struct WebSocketFuzzTests {
    /// The results of a core for a stream.
    struct Outcome: Equatable {
        var events: [String]
        var failure: TransportError?
        var output: [UInt8]
        var left: Int
    }

    static func configuration() -> WebSocketConfiguration {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageSize = 2000
        configuration.maximumHeaderBytes = 600
        return configuration
    }

    static func run(_ role: CoreRole, _ stream: [UInt8], cuts: (inout RandomSource) -> Int) throws -> Outcome {
        var harness = WebSocketHarness(try WebSocketCore(role, configuration()), seed: 5)
        var random = RandomSource.seeded(UInt64(stream.count) &+ 77)
        harness.start()
        for _ in 0..<2 where role == .client { try? harness.core.ping(&harness.context) }
        var rest = stream[...]
        while !rest.isEmpty, harness.failure == nil {
            let count = cuts(&random)
            harness.feed(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        let left = harness.failure == nil ? harness.input.count : 0
        return Outcome(
            events: harness.events.map(describe),
            failure: harness.failure,
            output: harness.takeOutput(),
            left: left
        )
    }

    /// A handshake and frames, mostly valid.
    static func stream(_ role: CoreRole, _ random: inout RandomSource) throws -> [UInt8] {
        var probe = WebSocketHarness(try WebSocketCore(role, configuration()), seed: 5)
        probe.start()
        var bytes = role == .server ? request() : response(key: probe.core.key)
        for _ in 0..<Int.random(in: 0...12, using: &random) {
            let key = (0..<4).map { _ in UInt8.random(in: 0...255, using: &random) }
            let size = [0, 1, 5, 124, 125, 126, 300, 1500].randomElement(using: &random) ?? 0
            let body = text(String(repeating: "日本a", count: size / 7 + 1)).prefix(size)
            let small = Array(text("control frame body").prefix(size))
            switch Int.random(in: 0..<12, using: &random) {
            case 0...3: bytes += frame(to: role, 0x82, Array(body), key: key)
            case 4, 5: bytes += frame(to: role, 0x81, text(String(repeating: "é🎉", count: size / 12)), key: key)
            case 6: bytes += frame(to: role, 0x81, Array(body), key: key)
            case 7, 8:
                bytes += frame(to: role, 0x01, text("日").dropLast(), key: key) + frame(to: role, 0x89, small, key: key)
                bytes += frame(to: role, 0x00, [], key: key) + frame(to: role, 0x80, text("日").suffix(1), key: key)
            case 9: bytes += frame(to: role, 0x89, small, key: key)
            case 10:
                bytes += frame(
                    to: role,
                    0x8a,
                    [0, 0, 0, 0, 0, 0, 0, UInt8.random(in: 0...3, using: &random)],
                    key: key
                )
            default:
                let close = frame(
                    to: role,
                    0x88,
                    closeBody(UInt16.random(in: 998...1017, using: &random), "x"),
                    key: key
                )
                bytes += Bool.random(using: &random) ? close : []
            }
        }
        return bytes
    }

    @Test(
        "The same stream gives the same events and answers, however it is sliced",
        arguments: [CoreRole.client, .server]
    )
    func slices(role: CoreRole) throws {
        var random = RandomSource.seeded(2024)
        for _ in 0..<150 {
            let stream = try Self.stream(role, &random)
            let whole = try Self.run(role, stream) { _ in .max }
            #expect(try Self.run(role, stream) { _ in 1 }.events == whole.events)
            for _ in 0..<3 {
                let sliced = try Self.run(role, stream) { Int.random(in: 1...200, using: &$0) }
                #expect(
                    sliced.events == whole.events && sliced.failure == whole.failure && sliced.output == whole.output
                )
            }
        }
    }

    @Test(
        "Damaged streams end in events or in one error, the same for every slicing",
        arguments: [CoreRole.client, .server]
    )
    func damage(role: CoreRole) throws {
        var random = RandomSource.seeded(99)
        var failures: [TransportError.Code: Int] = [:]
        for _ in 0..<800 {
            var stream = try Self.stream(role, &random)
            let handshakeToo = Int.random(in: 0..<4, using: &random) == 0
            let first = handshakeToo ? 0 : min(stream.count, role == .server ? 150 : 128)
            for _ in 0..<Int.random(in: 1...4, using: &random) where stream.count > first {
                let position = Int.random(in: first..<stream.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: stream[position] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 1: stream[position] = UInt8.random(in: 0...255, using: &random)
                case 2: stream.remove(at: position)
                default: stream.insert(UInt8.random(in: 0...255, using: &random), at: position)
                }
            }
            let whole = try Self.run(role, stream) { _ in .max }
            let sliced = try Self.run(role, stream) { Int.random(in: 1...50, using: &$0) }
            #expect(sliced.events == whole.events && sliced.failure == whole.failure && sliced.output == whole.output)
            if let code = whole.failure?.code { failures[code, default: 0] += 1 }
        }
        #expect(
            failures.keys.allSatisfy {
                [.protocolViolation, .invalidText, .messageTooLarge, .handshakeFailed, .serverUnavailable].contains($0)
            }
        )
        #expect((failures[.protocolViolation] ?? 0) > 30 && (failures[.handshakeFailed] ?? 0) > 30)
        #expect((failures[.invalidText] ?? 0) > 5)
    }

    @Test("Random bytes never open a connection", arguments: [CoreRole.client, .server])
    func noise(role: CoreRole) throws {
        var random = RandomSource.seeded(7)
        for _ in 0..<300 {
            let count = Int.random(in: 0...800, using: &random)
            let noise = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let outcome = try Self.run(role, noise) { Int.random(in: 1...100, using: &$0) }
            #expect(outcome.events.isEmpty)
        }
    }
}
