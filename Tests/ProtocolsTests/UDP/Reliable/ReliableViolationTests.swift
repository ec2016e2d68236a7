import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// A peer that knows the connection id and violates the rules of the reliable mode.
@Suite("UDP reliable mode: violations")
struct ReliableViolationTests {
    private static func number(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }
    private static func short(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }

    private static func whole(_ message: UInt64, _ bytes: [UInt8]) -> [UInt8] {
        let size = [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)]
        return [1] + number(message) + size + bytes
    }

    private static func fragment(_ message: UInt64, total: UInt32, offset: UInt32, _ size: Int) -> [UInt8] {
        var bytes: [UInt8] = [2]
        bytes += number(message)
        bytes += short(total)
        bytes += short(offset)
        bytes += [UInt8(size >> 8), UInt8(size & 255)]
        return bytes + [UInt8](repeating: 5, count: size)
    }

    private static func acknowledgement(
        _ largest: UInt64,
        first: UInt32 = 0,
        _ more: [(distance: UInt32, length: UInt32)] = [],
        announced: UInt8? = nil
    ) -> [UInt8] {
        var bytes: [UInt8] = [3]
        bytes += number(1 << 20)
        bytes += number(largest)
        bytes += short(0)
        bytes.append(announced ?? UInt8(more.count))
        bytes += short(first)
        for run in more { bytes += short(run.distance) + short(run.length) }
        return bytes
    }

    static let violations: [(String, [[UInt8]])] = [
        ("an acknowledgement of a packet that was never sent", [acknowledgement(90)]),
        ("an acknowledgement whose first run is longer than all numbers", [acknowledgement(0, first: 1)]),
        ("an acknowledgement whose runs touch", [acknowledgement(0, [(1, 0)])]),
        ("an acknowledgement whose runs go below zero", [acknowledgement(0, [(2, 0)])]),
        ("an acknowledgement that is cut off", [Array(acknowledgement(0).dropLast())]),
        ("an acknowledgement that announces more runs than it has", [acknowledgement(0, announced: 3)]),
        ("an acknowledgement with too many runs", [acknowledgement(0, announced: 255)]),
        ("a message of four gigabytes", [fragment(0, total: .max, offset: 0, 300)]),
        ("a message above the limit", [fragment(0, total: 1 << 20 | 1, offset: 0, 300)]),
        ("a fragment beyond the end", [fragment(0, total: 1000, offset: 800, 300)]),
        ("a fragment that begins beyond the end", [fragment(0, total: 1000, offset: .max, 300)]),
        ("an empty fragment", [fragment(0, total: 1000, offset: 0, 0)]),
        ("a tiny fragment", [fragment(0, total: 1000, offset: 0, 255)]),
        ("a fragment of an empty message", [fragment(0, total: 0, offset: 0, 0)]),
        (
            "fragments with different sizes of their message",
            [fragment(0, total: 3000, offset: 0, 300), fragment(0, total: 3001, offset: 300, 300)]
        ),
        (
            "a message that comes in fragments and whole, in different sizes",
            [fragment(0, total: 3000, offset: 0, 300), whole(0, [1])]
        ),
        ("a message too far ahead", [whole(16_384, [1])]),
        ("a message with the last possible number", [whole(.max, [1])]),
        (
            "more bytes than the credit allows",
            (0..<3).map { fragment($0, total: 1 << 20, offset: 0, 300) }
        ),
        ("a message that is cut off", [Array(whole(0, [1, 2, 3]).dropLast())]),
        ("an unknown frame", [[9]]),
    ]

    @Test(
        "Each violation ends the session with a typed error and a close datagram, and takes no memory",
        arguments: violations
    )
    func violation(name: String, frames: [[UInt8]]) throws {
        var pair = try ReliablePair()
        for (number, frame) in frames.enumerated() { pair.client.feed(datagram: pair.packet(UInt8(number), frame)) }
        #expect(pair.client.failure?.code == .protocolViolation, "\(name)")
        let bye = pair.client.takeDatagrams().last
        #expect(bye?.prefix(4) == [0x49, 0x4d, 1, 8] && bye?.dropFirst(12).prefix(2) == [0x03, 0xea])
        let receiver = try #require(pair.client.core.reliable?.receiver)
        #expect(receiver.waiting <= 2 && receiver.held <= receiver.terms.window)
        #expect(pair.client.messages.isEmpty)
    }

    @Test("A message that is sent again in other fragments arrives once")
    func otherFragments() throws {
        var pair = try ReliablePair()
        let frames = [
            Self.fragment(0, total: 1000, offset: 300, 400), Self.fragment(0, total: 1000, offset: 0, 400),
            Self.fragment(0, total: 1000, offset: 256, 700), Self.fragment(0, total: 1000, offset: 256, 300),
        ]
        for (number, frame) in frames.enumerated() { pair.client.feed(datagram: pair.packet(UInt8(number), frame)) }
        #expect(pair.client.messages.isEmpty && pair.client.core.reliable?.receiver.waiting == 1)
        pair.client.feed(datagram: pair.packet(4, Self.fragment(0, total: 1000, offset: 744, 256)))
        pair.client.feed(datagram: pair.packet(5, Self.fragment(1, total: 600, offset: 256, 344)))
        pair.client.feed(datagram: pair.packet(6, Self.whole(1, [UInt8](repeating: 5, count: 600))))
        let bytes = [1000, 600].map { [UInt8](repeating: 5, count: $0) }
        #expect(pair.client.messages.map(\.bytes) == bytes && pair.client.failure == nil)
        #expect(pair.client.core.reliable?.receiver.held == 0)
    }

    @Test("Packets that come twice, or are older than the history, change nothing")
    func repeated() throws {
        var pair = try ReliablePair()
        let packet = pair.packet(0, Self.whole(0, [1]))
        for _ in 0..<3 { pair.client.feed(datagram: packet) }
        pair.client.feed(datagram: pair.packet(1, Self.whole(0, [1])))
        var far = packet
        far.replaceSubrange(12..<20, with: Self.number(1 << 40))
        pair.client.feed(datagram: far)
        pair.client.feed(datagram: pair.packet(1, [9]))
        #expect(pair.client.messages.map(\.bytes) == [[1]])
        #expect(pair.client.context.counters.duplicates == 5 && pair.client.failure == nil)
    }

    @Test("Mutated packets never trap, and the buffered bytes stay within the window")
    func fuzz() throws {
        var random = RandomSource.seeded(5)
        for seed in 0..<200 as Range<UInt64> {
            var pair = try ReliablePair(.reliable(seed % 2 == 0 ? .ordered : .unordered), seed: seed)
            for size in [0, 3, 3000] { _ = try pair.client.send(Payload([UInt8](repeating: 1, count: size))) }
            _ = pair.serverSends([UInt8](repeating: 1, count: 2000))
            let sent = pair.client.takeDatagrams()
            for _ in 0..<60 {
                var datagram = sent[Int.random(in: sent.indices, using: &random)]
                for _ in 0..<Int.random(in: 0...2, using: &random) { mutate(&datagram, using: &random) }
                for answer in pair.server.receive(datagram) { pair.client.feed(datagram: answer) }
            }
            if let receiver = pair.session?.reliable?.receiver { #expect(receiver.held <= receiver.terms.window) }
            #expect(pair.server.failures.allSatisfy { $0.code == .protocolViolation })
        }
    }
}
