import TestSupport
import Testing

@testable import Protocols

@Suite("Pieces of a stream that may be repeated")
struct ResumedInputTests {
    @Test("Pieces in order are read as one stream")
    func order() {
        var input = ResumedInput(window: 1 << 10)
        #expect(input.take([0, 1, 2], at: 0) == .taken(3) && input.take([3], at: 3) == .taken(1))
        #expect(input.read(2) == [0, 1] && input.count == 2)
        #expect(input.take([4, 5], at: 4) == .taken(2))
        #expect(input.read(10) == [2, 3, 4, 5] && input.read(10) == [] && input.received == 6)
    }

    @Test("Every split and every repetition of a stream is read as the same stream")
    func repetitions() {
        let whole = Array<UInt8>(0..<8)
        for from in 0...8 {
            for to in from...8 {
                for first in 0...8 {
                    var input = ResumedInput(window: 1 << 10)
                    #expect(input.take(Array(whole[..<first]), at: 0) == .taken(first))
                    let outcome = input.take(Array(whole[from..<to]), at: UInt64(from))
                    if from > first {
                        #expect(outcome == .gap(expected: UInt64(first)) && input.received == first)
                    } else {
                        #expect(outcome == .taken(max(0, to - first)))
                    }
                    #expect(input.take(whole, at: 0) != .gap(expected: 0))
                    #expect(input.read(20) == whole && input.received == 8)
                }
            }
        }
    }

    @Test("A piece far behind the expected offset is refused, and changes nothing")
    func gaps() {
        var input = ResumedInput(window: 1 << 10)
        #expect(input.take([1], at: .max) == .gap(expected: 0))
        #expect(input.take([1], at: 1, isLast: true) == .gap(expected: 0))
        #expect(!input.isEnded && input.count == 0 && input.bufferedBytes == 0)
    }

    @Test("The end can be repeated, but not contradicted")
    func end() {
        var input = ResumedInput(window: 1 << 10)
        _ = input.take([0, 1], at: 0)
        #expect(input.take([0], at: 0, isLast: true) == .beyondEnd(2) && !input.isEnded)
        #expect(input.take([1, 2], at: 1, isLast: true) == .taken(1) && input.isEnded && !input.isFinished)
        #expect(input.take([1, 2], at: 1, isLast: true) == .taken(0))
        #expect(input.take([2], at: 2) == .taken(0))
        #expect(input.take([2, 3], at: 2) == .beyondEnd(3))
        #expect(input.read(10) == [0, 1, 2] && input.isFinished)
    }

    @Test("A stream whose bytes were read keeps no memory")
    func memory() {
        var input = ResumedInput(window: 1 << 10)
        _ = input.take(Array(repeating: 1, count: 1000), at: 0)
        #expect(input.bufferedBytes >= 1000)
        _ = input.read(1000)
        #expect(input.bufferedBytes == 0)
        _ = input.take([1], at: 1000)
        input.discard()
        #expect(input.bufferedBytes == 0 && input.received == 1001)
    }
}

extension ResumedInput {
    fileprivate mutating func read(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let length = bytes.withUnsafeMutableBytes { self.read(into: $0) }
        return Array(bytes[..<length])
    }
}
