/// Compares names by words. If the name is a literal, its words are constants, and its length selects the comparison at
/// compile time.
@usableFromInline
enum JSONName {
    /// Whether the input at `source` is `name` in quotes, without escapes, and a colon. The caller has checked that as
    /// many bytes are readable.
    @inlinable @inline(__always)
    static func stands(_ name: StaticString, at source: UnsafePointer<UInt8>) -> Bool {
        let count = name.utf8CodeUnitCount
        let around =
            (source[0] ^ UInt8(ascii: "\"")) | (source[count &+ 1] ^ UInt8(ascii: "\""))
            | (source[count &+ 2] ^ UInt8(ascii: ":"))
        return difference(source + 1, name.utf8Start, count) | UInt64(around) == 0
    }

    /// Zero if the `count` bytes at both addresses are the same.
    @inlinable @inline(__always)
    static func difference(_ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int) -> UInt64 {
        if count >= 8 {
            let ends = difference(left, right, 0, UInt64.self) | difference(left, right, count &- 8, UInt64.self)
            return count > 16 ? ends | longDifference(left, right, count) : ends
        }
        if count >= 4 {
            return UInt64(difference(left, right, 0, UInt32.self) | difference(left, right, count &- 4, UInt32.self))
        }
        if count < 1 { return 0 }
        // The first, the middle and the last byte are all of one to three bytes.
        let half = count &>> 1
        return UInt64((left[0] ^ right[0]) | (left[half] ^ right[half]) | (left[count &- 1] ^ right[count &- 1]))
    }

    /// The same for all words but the last.
    @usableFromInline
    static func longDifference(_ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int) -> UInt64 {
        var difference: UInt64 = 0
        for index in stride(from: 0, to: count &- 8, by: 8) {
            difference |= Self.difference(left, right, index, UInt64.self)
        }
        return difference
    }

    @inlinable @inline(__always)
    static func difference<W: FixedWidthInteger & BitwiseCopyable>(
        _ left: UnsafePointer<UInt8>,
        _ right: UnsafePointer<UInt8>,
        _ offset: Int,
        _ type: W.Type
    ) -> W {
        UnsafeRawPointer(left).loadUnaligned(fromByteOffset: offset, as: W.self)
            ^ UnsafeRawPointer(right).loadUnaligned(fromByteOffset: offset, as: W.self)
    }
}
