import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP fragments", .timeLimit(.minutes(5)), .ownThread)
struct FragmentsTests {
    /// This many bytes, in a pattern whose period does not divide the size of a block.
    private static func bytes(_ size: Int) -> [UInt8] {
        let pattern = (0..<65_521).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        var all: [UInt8] = []
        while all.count < size { all += pattern }
        return Array(all.prefix(size))
    }

    @Test(
        "The largest message is assembled from the smallest fragments in any order",
        arguments: ["reverse", "every second"]
    )
    func manyFragments(order: String) throws {
        let size = 16 << 20
        let count = size / Fragments.minimumSize
        let all = Self.bytes(size)
        var fragments = Fragments(total: size)
        let numbers =
            order == "reverse"
            ? Array((0..<count).reversed())
            : Array(stride(from: count - 1, to: 0, by: -2)) + Array(stride(from: count - 2, through: 0, by: -2))
        for number in numbers {
            #expect(!fragments.isComplete)
            let start = number * Fragments.minimumSize
            try fragments.insert(Array(all[start..<start + Fragments.minimumSize]), at: start, of: size)
        }
        #expect(fragments.isComplete && fragments.joined() == all)
    }

    @Test("Fragments take memory only for the bytes that have arrived, whatever size was announced")
    func reserved() throws {
        var fragments = Fragments(total: 16 << 20)
        for end in [16 << 20, 8 << 20, 1 << 20] {
            try fragments.insert([UInt8](repeating: 1, count: 256), at: end - 256, of: 16 << 20)
        }
        #expect(fragments.reserved <= 3 * 4096)
        try fragments.insert([UInt8](repeating: 1, count: 1000), at: 5 * 4096 - 500, of: 16 << 20)
        #expect(fragments.reserved <= 5 * 4096)
    }

    @Test("Fragments that overlap in any way keep the first value of each byte", arguments: 0..<20 as Range<UInt64>)
    func overlaps(seed: UInt64) throws {
        var random = RandomSource.seeded(seed)
        let size = Int.random(in: 1...20_000, using: &random)
        var fragments = Fragments(total: size)
        var model = [UInt8?](repeating: nil, count: size)
        var mark: UInt8 = 0
        while !fragments.isComplete {
            let start = max(0, Int.random(in: -2000..<size, using: &random))
            let end = min(size, start + Int.random(in: 256...3000, using: &random))
            mark &+= 1
            try fragments.insert([UInt8](repeating: mark, count: end - start), at: start, of: size)
            for index in start..<end where model[index] == nil { model[index] = mark }
            #expect(fragments.isComplete == !model.contains(nil))
        }
        #expect(fragments.joined() == model.compactMap { $0 })
    }
}
