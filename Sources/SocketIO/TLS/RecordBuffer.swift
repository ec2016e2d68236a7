/// Encrypted bytes of one direction. While bytes are processed, they are in a block of the loop. A rest that waits for
/// the peer moves to memory of its own size.
struct RecordBuffer: ~Copyable {
    private let loop: EventLoop
    private var memory: UnsafeMutableRawPointer?
    private var capacity = 0
    private var start = 0
    private var end = 0

    init(on loop: EventLoop) {
        self.loop = loop
    }

    deinit {
        memory?.deallocate()
    }

    var isEmpty: Bool { start == end }
    var count: Int { end - start }
    /// How much memory the connection uses by this buffer. Of a block, only the bytes in it count.
    var ownMemory: Int { capacity == ScratchPool.blockSize ? count : capacity }
    /// How many bytes can be appended without another call of ``prepare()``.
    var room: Int { capacity - end }

    /// The bytes. Valid until the buffer changes.
    var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: memory.map { UnsafeRawPointer($0) + start }, count: count)
    }

    /// The first `count` bytes.
    func bytes(_ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: bytes[..<count])
    }

    /// The memory after the bytes; see ``added(_:)``.
    var free: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: memory.map { $0 + end }, count: room)
    }

    /// Makes sure that the bytes are at the front of a block.
    mutating func prepare() {
        if let memory, capacity == ScratchPool.blockSize {
            guard start > 0 else { return }
            memory.copyMemory(from: memory + start, byteCount: count)
        } else {
            let block = loop.takeBlock()
            if let memory {
                block.copyMemory(from: memory + start, byteCount: count)
                memory.deallocate()
            }
            memory = block
            capacity = ScratchPool.blockSize
        }
        end = count
        start = 0
    }

    /// Records that `count` bytes were stored in ``free``.
    mutating func added(_ count: Int) {
        end += count
    }

    /// Removes bytes from the front.
    mutating func consume(_ count: Int) {
        start += count
    }

    /// Gives a block back. A rest moves to memory of its own size, unless it is a large part of the block.
    mutating func shrink() {
        guard let memory, isEmpty || capacity == ScratchPool.blockSize && count < capacity / 2 else { return }
        let rest = count
        var small: UnsafeMutableRawPointer?
        if rest > 0 {
            let copy = UnsafeMutableRawPointer.allocate(byteCount: rest, alignment: 1)
            copy.copyMemory(from: memory + start, byteCount: rest)
            small = copy
        }
        if capacity == ScratchPool.blockSize { loop.giveBlock(memory) } else { memory.deallocate() }
        self.memory = small
        capacity = rest
        start = 0
        end = rest
    }

    /// Frees the bytes and the memory.
    mutating func removeAll() {
        start = end
        shrink()
    }
}
