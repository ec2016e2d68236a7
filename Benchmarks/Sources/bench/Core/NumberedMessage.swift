import Foundation

/// A message of one size: a number in the first 8 bytes, followed by bytes that differ from each other.
struct NumberedMessage: Sendable {
    private(set) var bytes: [UInt8]

    /// - Parameter size: the size in bytes, at least 8.
    init(size: Int) {
        bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    }

    /// Gives the message another number, in place.
    @inline(__always)
    mutating func setNumber(_ number: Int) {
        bytes.withUnsafeMutableBytes { $0.storeBytes(of: UInt64(truncatingIfNeeded: number), as: UInt64.self) }
    }

    /// Whether `other` equals this message. Of a large message only the ends and one byte of each page are compared, so
    /// that the comparison does not affect the measured time.
    @inline(__always)
    func equals(_ other: UnsafeRawBufferPointer) -> Bool {
        bytes.withUnsafeBytes { own in
            guard own.count == other.count, let left = own.baseAddress, let right = other.baseAddress else {
                return false
            }
            if own.count <= 4096 { return memcmp(left, right, own.count) == 0 }
            let tail = own.count - 64
            return memcmp(left, right, 64) == 0 && memcmp(left + tail, right + tail, 64) == 0
                && stride(from: 0, to: own.count, by: 4096).allSatisfy { own[$0] == other[$0] }
        }
    }
}
