import Testing
import TransportAPI

@testable import TransportAPI

@Suite("The window of sequence numbers")
struct SequenceWindowTests {
    @Test(
        "A window distinguishes new, late and repeated numbers, also across the wrap-around",
        arguments: [0, 5000, UInt32.max - 2]
    )
    func verdicts(start: UInt32) {
        var window = SequenceWindow()
        #expect(window.insert(start &+ 1) == .new)
        #expect(window.insert(start &+ 1) == .duplicate)
        #expect(window.insert(start) == .late)
        #expect(window.insert(start) == .duplicate)
        #expect(window.insert(start &+ 6) == .new)
        #expect(window.insert(start &+ 5) == .late)
        #expect(window.insert(start &+ 1) == .duplicate)
        #expect(window.insert(start &+ 6 &- 1023) == .late)
        #expect(window.insert(start &+ 6 &- 1024) == .duplicate)
    }

    @Test(
        "A jump removes the numbers that it leaves behind the window",
        arguments: [1023, 1024, 1025, 100_000, 0x7fff_ffff] as [UInt32]
    )
    func leaps(distance: UInt32) {
        var window = SequenceWindow()
        for number in 0..<2000 as Range<UInt32> { #expect(window.insert(number) == .new) }
        let target = 1999 &+ distance
        #expect(window.insert(target) == .new)
        for back in 1..<1024 as Range<UInt32> {
            #expect(window.insert(target &- back) == (target &- back <= 1999 ? .duplicate : .late))
        }
        #expect(window.insert(target &- 1024) == .duplicate)
    }

    @Test("A window agrees with a set that stores every number")
    func againstASet() {
        var random = RandomSource.seeded(2)
        var window = SequenceWindow()
        var seen: Set<Int> = []
        var highest = 0
        for step in 0..<50_000 {
            let number = max(0, step + Int.random(in: -1500...200, using: &random))
            let expected: SequenceWindow.Verdict
            if seen.isEmpty || number > highest {
                expected = .new
            } else {
                expected = highest - number < 1024 && !seen.contains(number) ? .late : .duplicate
            }
            #expect(window.insert(UInt32(truncatingIfNeeded: number + 0xffff_f000)) == expected)
            if expected != .duplicate { seen.insert(number) }
            highest = max(highest, number)
        }
    }
}
