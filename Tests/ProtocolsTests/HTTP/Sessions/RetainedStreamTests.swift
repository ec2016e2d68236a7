import TestSupport
import Testing

@testable import Protocols

@Suite("Retained bytes of a stream")
struct RetainedStreamTests {
    /// A stream of the bytes 0, 1, 2 and so on.
    private func stream(_ count: UInt8, window: Int = 100) -> RetainedStream {
        var stream = RetainedStream(window: window)
        #expect(stream.append(Array(0..<count)) == Int(count))
        return stream
    }

    @Test("The reader gets the bytes from any offset that it has not acknowledged")
    func reading() {
        var stream = stream(10)
        #expect(stream.acknowledge(before: 3) == .taken(3))
        for offset in 0..<3 { #expect(stream.bytes(from: UInt64(offset)) == nil) }
        for offset in UInt64(3)...10 { #expect(stream.bytes(from: offset) == Array(UInt8(offset)..<10)) }
        #expect(stream.bytes(from: 11) == nil && stream.bytes(from: .max) == nil)
        #expect(stream.start == 3 && stream.end == 10 && stream.count == 7)
    }

    @Test("No more than the window is retained, and an acknowledgement makes room")
    func window() {
        var stream = RetainedStream(window: 4)
        #expect(stream.append([1, 2, 3, 4, 5, 6]) == 4)
        #expect(stream.append([5]) == 0 && stream.room == 0)
        #expect(stream.acknowledge(before: 2) == .taken(2) && stream.room == 2)
        #expect(stream.append([5, 6, 7]) == 2)
        #expect(stream.bytes(from: 2) == [3, 4, 5, 6])
    }

    @Test("A late acknowledgement changes nothing, and one of bytes that were not written is recognised")
    func acknowledgements() {
        var stream = stream(10)
        #expect(stream.acknowledge(before: 5) == .taken(5))
        #expect(stream.acknowledge(before: 5) == .taken(0))
        #expect(stream.acknowledge(before: 4) == .old && stream.acknowledge(before: 0) == .old)
        #expect(stream.acknowledge(before: 11) == .beyond && stream.acknowledge(before: .max) == .beyond)
        #expect(stream.start == 5 && stream.count == 5)
    }

    @Test("A stream without retained bytes keeps no memory")
    func memory() {
        var stream = stream(10)
        #expect(stream.bufferedBytes >= 10)
        _ = stream.acknowledge(before: 10)
        #expect(stream.bufferedBytes == 0 && stream.bytes(from: 10) == [])
    }

    @Test("Nothing can be written after the end, and what was written before can still be read")
    func end() {
        var stream = stream(3)
        stream.finish()
        #expect(stream.isEnded && stream.append([9]) == 0 && stream.bytes(from: 1) == [1, 2])
        stream.discard()
        #expect(stream.start == 3 && stream.count == 0 && stream.bufferedBytes == 0)
    }
}

extension RetainedStream {
    fileprivate mutating func append(_ bytes: [UInt8]) -> Int { bytes.withUnsafeBytes { write($0) } }

    fileprivate func bytes(from offset: UInt64) -> [UInt8]? { withBytes(from: offset) { Array($0) } }
}
