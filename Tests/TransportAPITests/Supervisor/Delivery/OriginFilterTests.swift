import Testing

@testable import TransportAPI

/// Tests the filter that recognises messages of other clients of a broker that arrive a second time.
@Suite("A filter of repeated messages")
struct OriginFilterTests {
    private var random = RandomSource.seeded(1)
    private var filter: OriginFilter
    private let ann = SessionID(high: 1, low: 2)

    init() {
        filter = OriginFilter(using: &random)
    }

    private func text(_ text: String, on topic: String? = nil) -> Payload { Payload(text: text, topic: topic) }

    @Test("A filter recognises a repeated message by its sender, number and content")
    mutating func repeats() {
        var verdicts: [Bool] = []
        for number: UInt64 in [1, 2, 1, 2, 3] { verdicts.append(filter.isNew(ann, number, text("\(number)"))) }
        #expect(verdicts == [true, true, false, false, true])
    }

    @Test("A message with another content, sender or topic, or with a lower number, is not a repetition")
    mutating func forged() {
        var taken = 0
        for number in 1...3000 as ClosedRange<UInt64> { if filter.isNew(ann, number, text("forged")) { taken += 1 } }
        if filter.isNew(ann, 1 << 40, text("forged")) { taken += 1 }
        for number in 1...3000 as ClosedRange<UInt64> { if filter.isNew(ann, number, text("true")) { taken += 1 } }
        #expect(taken == 6001)
        let others = [
            filter.isNew(ann, 1, text("true")),
            filter.isNew(SessionID(high: 1, low: 3), 1, text("true")),
            filter.isNew(ann, 1, text("true", on: "room")),
            filter.isNew(ann, 1, Payload(Array("true".utf8))),
        ]
        #expect(others == [false, true, true, true])
    }

    @Test("A filter remembers at least 65,536 messages and at most twice as many")
    mutating func memory() {
        var most = 0
        for number in 1...200_000 as ClosedRange<UInt64> {
            _ = filter.isNew(ann, number, text("x"))
            most = max(most, filter.count)
        }
        #expect(most <= 2 * OriginFilter.capacity)
        var forgotten = 0
        for number in 200_000 - 65_535...200_000 as ClosedRange<UInt64> {
            if filter.isNew(ann, number, text("x")) { forgotten += 1 }
        }
        #expect(forgotten == 0)
        let isForgotten = filter.isNew(ann, 1, text("x"))
        #expect(isForgotten)
    }

    @Test("Hashing a block of bytes gives the same result as hashing byte by byte")
    func wholeWords() {
        let bytes = (0..<100 as Range<UInt8>).map { $0 }
        for start in 0..<10 {
            for end in start..<bytes.count {
                var (one, all) = (SipHash24(key: (1, 2)), SipHash24(key: (1, 2)))
                for byte in bytes[..<end] { one.combine(byte) }
                for byte in bytes[..<start] { all.combine(byte) }
                bytes[start..<end].withUnsafeBytes { all.combine($0) }
                let (first, second) = (one.finalize(), all.finalize())
                #expect(first == second)
            }
        }
        var (word, parts) = (SipHash24(key: (1, 2)), SipHash24(key: (1, 2)))
        word.combine(0x0807_0605_0403_0201 as UInt64)
        for byte in 1...8 as ClosedRange<UInt8> { parts.combine(byte) }
        let (whole, apart) = (word.finalize(), parts.finalize())
        #expect(whole == apart)
    }
}
