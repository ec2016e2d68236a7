import Testing
import TransportAPI

@testable import Protocols

@Suite("Byte buffer")
struct ByteBufferTests {
    @Test("Bytes are read in the order in which they were written, through growth and consumption")
    func againstAnArray() {
        var random = RandomSource.seeded(7)
        var buffer = ByteBuffer()
        var model: [UInt8] = []
        for step in 0..<5000 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let bytes = (0..<Int.random(in: 0..<200, using: &random)).map { UInt8(truncatingIfNeeded: $0 &+ step) }
                buffer.append(contentsOf: bytes)
                model += bytes
            case 1:
                buffer.append(integer: UInt32(step))
                model += withUnsafeBytes(of: UInt32(step).bigEndian, Array.init)
            case 2:
                let count = Int.random(in: 0..<400, using: &random)
                buffer.consume(count)
                model.removeFirst(min(count, model.count))
            default:
                buffer.reserve(Int.random(in: 0..<300, using: &random))
            }
            #expect(buffer.count == model.count && buffer.isEmpty == model.isEmpty)
            #expect(buffer.bytes(at: 0, count: model.count) == model)
        }
    }

    @Test("Reading past the end or before the start returns nil")
    func reads() {
        var buffer = ByteBuffer()
        #expect(buffer.byte(at: 0) == nil)
        #expect(buffer.bytes(at: 0, count: 0) == [])
        #expect(buffer.integer(at: 0, as: UInt8.self) == nil)
        buffer.append(contentsOf: [1, 2, 3, 4, 5])
        buffer.consume(1)
        #expect(buffer.byte(at: 3) == 5 && buffer.byte(at: 4) == nil && buffer.byte(at: -1) == nil)
        #expect(buffer.integer(at: 0, as: UInt32.self) == 0x0203_0405)
        #expect(buffer.integer(at: 1, as: UInt32.self) == nil)
        #expect(buffer.integer(at: 1, as: UInt16.self) == 0x0304)
        #expect(buffer.integer(at: -1, as: UInt8.self) == nil)
        #expect(buffer.integer(at: .max, as: UInt64.self) == nil && buffer.integer(at: .min, as: UInt8.self) == nil)
        #expect(buffer.bytes(at: 4, count: 0) == [] && buffer.bytes(at: 5, count: 0) == nil)
        #expect(buffer.bytes(at: 1, count: .max) == nil && buffer.bytes(at: .max, count: 1) == nil)
        #expect(buffer.bytes(at: 0, count: -1) == nil && buffer.bytes(at: -1, count: 1) == nil)
    }

    @Test("Consuming more than all bytes empties a buffer, and a negative count does nothing")
    func consuming() {
        var buffer = ByteBuffer(capacity: 8)
        buffer.append(contentsOf: [1, 2, 3])
        buffer.consume(-5)
        #expect(buffer.count == 3)
        buffer.consume(.max)
        #expect(buffer.isEmpty && buffer.writableCount == buffer.capacity)
    }

    @Test("A buffer makes room by moving its bytes, as long as that is enough")
    func movesBeforeGrowing() {
        var buffer = ByteBuffer(capacity: 64)
        let capacity = buffer.capacity
        for round in 0..<1000 {
            buffer.append(contentsOf: [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: 24))
            #expect(buffer.byte(at: 0) == UInt8(truncatingIfNeeded: round))
            buffer.consume(20)
            buffer.consume(4)
        }
        buffer.append(contentsOf: [UInt8](repeating: 1, count: 50))
        buffer.consume(45)
        buffer.append(contentsOf: [UInt8](repeating: 2, count: 50))
        #expect(buffer.capacity == capacity)
        #expect(buffer.bytes(at: 0, count: 6) == [1, 1, 1, 1, 1, 2])
    }

    @Test("The memory of a buffer stays within a small multiple of its bytes, however long it is used")
    func boundedMemory() {
        var buffer = ByteBuffer()
        buffer.append(contentsOf: [UInt8](repeating: 0, count: 1000))
        for _ in 0..<10_000 {
            buffer.append(contentsOf: [UInt8](repeating: 0, count: 100))
            buffer.consume(100)
        }
        #expect(buffer.count == 1000 && buffer.capacity <= 8000)
    }

    @Test("A few bytes after very many do not double a buffer")
    func carefulGrowth() {
        var buffer = ByteBuffer(capacity: 8 << 20)
        buffer.append(contentsOf: [UInt8](repeating: 1, count: 8 << 20))
        buffer.append(2)
        #expect(buffer.count == 8 << 20 + 1 && buffer.capacity <= 10 << 20)
    }

    @Test("The count that a writer claims is limited to the space that it was offered")
    func overclaim() {
        var buffer = ByteBuffer(capacity: 16)
        _ = buffer.write(minimum: 4) { _ in 1_000_000 }
        #expect(buffer.count == buffer.capacity)
        _ = buffer.write(minimum: 4) { _ in -7 }
        #expect(buffer.count <= buffer.capacity)
        buffer.removeAll()
        #expect(buffer.count == 0)
    }

    @Test("Buffered bytes can be changed in place, and text is appended as UTF-8")
    func mutation() {
        var buffer = ByteBuffer(capacity: -1)
        #expect(buffer.capacity == 0)
        buffer.append(utf8: "né")
        buffer.consume(1)
        buffer.withUnsafeMutableReadableBytes { bytes in
            for index in bytes.indices { bytes[index] ^= 0xff }
        }
        #expect(buffer.bytes(at: 0, count: 2) == [0x3c, 0x56])
    }
}
