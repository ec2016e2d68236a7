/// Memory that everything on one event loop reads into and writes from in turn, so that an idle connection owns none.
public struct ScratchPool {
    // Kept small: one block for the connection that reads now, a few for those that wait for the kernel.
    private static let limit = 16
    /// How large a block is, in bytes.
    public static let blockSize = 64 * 1024

    private var blocks: [UnsafeMutableRawPointer] = []

    init() {}

    /// Takes a block of ``blockSize`` bytes.
    public mutating func take() -> UnsafeMutableRawPointer {
        blocks.popLast() ?? .allocate(byteCount: Self.blockSize, alignment: 16)
    }

    /// Gives a block back.
    public mutating func give(_ block: UnsafeMutableRawPointer) {
        if blocks.count < Self.limit {
            blocks.append(block)
        } else {
            block.deallocate()
        }
    }
}

extension EventLoop {
    /// Takes a block of ``ScratchPool/blockSize`` bytes, which all that live on the loop share. To be called there.
    public func takeBlock() -> UnsafeMutableRawPointer {
        scratch.take()
    }

    /// Gives such a block back. To be called on the loop.
    public func giveBlock(_ block: UnsafeMutableRawPointer) {
        scratch.give(block)
    }
}
