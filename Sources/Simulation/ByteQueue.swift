/// A queue of bytes, first in, first out.
struct ByteQueue {
    private var bytes: [UInt8] = []
    private var head = 0

    var count: Int { bytes.count - head }
    var isEmpty: Bool { count == 0 }

    mutating func append(_ added: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: added)
    }

    /// Removes the first bytes, at most as many as fit into `buffer`, and copies them there. Returns their number.
    mutating func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let taken = min(count, buffer.count)
        bytes.withUnsafeBytes { all in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[head..<head + taken]))
        }
        dropFirst(taken)
        return taken
    }

    /// Moves the first `moved` bytes to the end of `other`.
    mutating func move(_ moved: Int, to other: inout ByteQueue) {
        bytes.withUnsafeBytes { other.append(UnsafeRawBufferPointer(rebasing: $0[head..<head + moved])) }
        dropFirst(moved)
    }

    /// Changes one bit of the byte at `index`.
    mutating func flip(_ index: Int, bit: Int) {
        bytes[head + index] ^= 1 << bit
    }

    mutating func removeAll() {
        bytes = []
        head = 0
    }

    private mutating func dropFirst(_ dropped: Int) {
        head += dropped
        if head == bytes.count {
            bytes.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 1 << 14, head > bytes.count / 2 {
            bytes.removeFirst(head)
            head = 0
        }
    }
}
