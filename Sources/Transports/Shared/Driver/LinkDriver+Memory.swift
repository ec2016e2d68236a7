import SocketIO

// Blocks for reading and writing, which all links of a loop share, so that an idle link owns none.
extension LinkDriver {
    /// The least room to read or write into, in bytes.
    static let room = 4096

    /// Makes sure that there is memory to write to, with some room. A message reserves its own length, and a few bytes behind much
    /// output are no reason to double it.
    func borrowMemory(_ buffer: inout ByteBuffer) {
        if buffer.capacity == 0 {
            buffer = takeBlock()
        } else if buffer.writableCount < Self.room {
            buffer.reserve(Self.room)
        }
    }

    /// Makes sure that there is memory to read into. The beginning of a frame that was kept in memory that fits it goes to the
    /// front of a whole block once that memory is full, so that much is read behind it; one that is too long for that grows where
    /// it is, and is read in ever larger parts.
    func borrowInput() {
        guard input.writableCount < Self.room else { return }
        if input.capacity < ScratchPool.blockSize, input.count < Self.shortPart {
            var block = takeBlock()
            input.withUnsafeReadableBytes { block.append(contentsOf: $0) }
            input = block
        } else {
            input.reserve(max(Self.room, input.count))
        }
    }

    private func takeBlock() -> ByteBuffer {
        ByteBuffer(adopting: loop.takeBlock(), capacity: ScratchPool.blockSize)
    }

    /// Less than this does not keep a block, in bytes.
    private static let shortPart = ScratchPool.blockSize / 4

    /// Gives the block back if nothing is in it. What is left of much, or waits for the rest of its frame, moves to memory that
    /// fits it, with as much room again: it moves once more only after half of it has gone, or the room is used up.
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

    /// Tells the owner what this link keeps in memory: what waits for its rest, for the kernel, and for
    /// the receiver.
    func tellMemory() {
        guard let owner else { return }
        let isAlive = phase == .opening || phase == .open
        let held =
            (isAlive ? core.heldBytes : 0) + input.ownMemory + context.output.ownMemory
            + (phase == .closed ? 0 : inbox.heldBytes)
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
