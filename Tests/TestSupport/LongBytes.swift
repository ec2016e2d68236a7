/// Returns `count` bytes. They begin with each possible byte value. After that they repeat every 65,521 bytes, which is
/// a prime, so neighbouring pieces of a usual size differ.
///
/// The bytes are copied in blocks. In a debug build, making them one by one looks up types for each byte, behind a
/// lock, and takes minutes with a sanitizer.
public func longBytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count { bytes += pattern.prefix(count - bytes.count) }
    return bytes
}

private let pattern: [UInt8] = {
    var bytes = [UInt8](0...255)
    var state: UInt32 = 1
    while bytes.count < 65_521 {
        state = state &* 1_664_525 &+ 1_013_904_223
        bytes.append(UInt8(truncatingIfNeeded: state >> 24))
    }
    return bytes
}()
