import Primitives
import Testing

@Suite("Bytes compared in words")
struct ByteComparisonTests {
    private func areSame(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.withUnsafeBytes { left in right.withUnsafeBytes { left.hasSameBytes(as: $0) } }
    }

    @Test("A difference at any position is found, at every length", arguments: 0...33)
    func differences(length: Int) {
        let bytes = (0..<length).map { UInt8($0) }
        #expect(areSame(bytes, Array(bytes)))
        for position in 0..<length {
            for bit in 0..<8 as Range<UInt8> {
                var other = bytes
                other[position] ^= 1 << bit
                #expect(!areSame(bytes, other), "length \(length), position \(position)")
            }
        }
    }

    @Test("Buffers of different lengths differ", arguments: 0...33)
    func lengths(length: Int) {
        let bytes = [UInt8](repeating: 7, count: length)
        #expect(!areSame(bytes, bytes + [7]) && !areSame(bytes + [7], bytes))
    }

    @Test("Bytes at odd addresses are compared")
    func unaligned() {
        let bytes = (0..<40).map { UInt8($0) }
        bytes.withUnsafeBytes { whole in
            let part = UnsafeRawBufferPointer(rebasing: whole[3..<30])
            #expect(areSame(Array(bytes[3..<30]), Array(part)))
            Array(bytes[3..<30]).withUnsafeBytes { #expect(part.hasSameBytes(as: $0)) }
            Array(bytes[4..<31]).withUnsafeBytes { #expect(!part.hasSameBytes(as: $0)) }
        }
    }
}
