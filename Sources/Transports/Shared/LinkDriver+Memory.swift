import SocketIO

// Blocks for reading and writing, which all links of a loop share, so that an idle link owns none.
extension LinkDriver {
    /// Makes sure that there is memory, with some room. What arrives is read in ever larger parts (`doubles`); what is written
    /// reserves its own length, and a few bytes behind much output are no reason to double it.
    func borrowMemory(_ buffer: inout ByteBuffer, doubles: Bool = false) {
        if buffer.capacity == 0 {
            buffer = ByteBuffer(adopting: loop.takeBlock(), capacity: ScratchPool.blockSize)
        } else if buffer.writableCount < 4096 {
            buffer.reserve(doubles ? max(4096, buffer.count) : 4096)
        }
    }

    /// Gives the block back if nothing is in it. What is left of much, or waits for the rest of its frame, moves to memory that
    /// fits it, with as much room again: it moves once more only after half of it has gone, or it has grown.
    func returnMemory(_ buffer: inout ByteBuffer) {
        if buffer.isEmpty {
            if let block = buffer.surrender(size: ScratchPool.blockSize) {
                loop.giveBlock(block)
            } else {
                buffer = ByteBuffer()
            }
        } else if buffer.capacity >= ScratchPool.blockSize, buffer.count < buffer.capacity / 4 {
            var small = ByteBuffer(capacity: buffer.count * 2)
            buffer.withUnsafeReadableBytes { small.append(contentsOf: $0) }
            buffer.removeAll()
            if let block = buffer.surrender(size: ScratchPool.blockSize) { loop.giveBlock(block) }
            buffer = small
        }
    }

    /// Lets go of what has come in part, since nothing more is read. The input of a session over a shared socket is lent for one
    /// datagram.
    func letGoOfParts() {
        core.linkEnded()
        guard !channel.isDatagram else { return }
        input.removeAll()
        returnMemory(&input)
    }

    /// Tells the owner what this link keeps in memory: what waits for its rest, and what waits for the kernel.
    func tellMemory() {
        guard let owner else { return }
        let isAlive = phase == .opening || phase == .open
        let held = (isAlive ? core.heldBytes : 0) + input.ownMemory + context.output.ownMemory
        guard held != heldBytes else { return }
        let change = held - heldBytes
        heldBytes = held
        owner.memoryChanged(by: change)
    }
}

extension ByteBuffer {
    /// How much memory a link keeps by this buffer: all of it, be it filled or not. Of a block, which it shares with the others
    /// of its loop, it is what waits there.
    fileprivate var ownMemory: Int { capacity == ScratchPool.blockSize ? count : capacity }
}
