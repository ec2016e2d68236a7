/// Memory that the connections of one event loop use in turn for reading and writing, so that an idle connection owns
/// none.
package struct ScratchPool: ~Copyable {
    // The pool is small: one block for the connection that reads now, a few for those that wait for the kernel.
    private static let limit = 16
    /// The size of a block, in bytes.
    package static let blockSize = 64 * 1024

    private let blocks = UnsafeMutablePointer<UnsafeMutableRawPointer>.allocate(capacity: limit)
    private var count = 0

    init() {}

    deinit {
        for index in 0..<count { blocks[index].deallocate() }
        blocks.deallocate()
    }

    /// Takes a block of ``blockSize`` bytes.
    mutating func take() -> UnsafeMutableRawPointer {
        guard count > 0 else { return .allocate(byteCount: Self.blockSize, alignment: 16) }
        count -= 1
        return blocks[count]
    }

    /// Gives a block back.
    mutating func give(_ block: UnsafeMutableRawPointer) {
        guard count < Self.limit else { return block.deallocate() }
        blocks[count] = block
        count += 1
    }
}

extension EventLoop {
    /// Takes a block of ``ScratchPool/blockSize`` bytes from the pool of the loop. Call this on the loop.
    package func takeBlock() -> UnsafeMutableRawPointer {
        scratch.take()
    }

    /// Gives back a block from ``takeBlock()``. Call this on the loop.
    package func giveBlock(_ block: UnsafeMutableRawPointer) {
        scratch.give(block)
    }
}
