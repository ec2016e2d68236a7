/// So many bytes: first each byte that there is, then others that come again only after 65,521, which is a prime, so
/// that pieces of a usual size differ from those beside them. They are put together by copying: what is made byte by
/// byte in a build for debugging looks up types for each, behind a lock, and takes a sanitizer minutes.
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
