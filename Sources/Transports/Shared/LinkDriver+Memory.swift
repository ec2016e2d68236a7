import SocketIO

// Blocks for reading and writing, which all links of a loop share, so that an idle link owns none.
extension LinkDriver {
    func borrowMemory(_ buffer: inout ByteBuffer) {
        if buffer.capacity == 0 {
            buffer = ByteBuffer(adopting: loop.scratch.take(), capacity: ScratchPool.blockSize)
        } else if buffer.writableCount < 4096 {
            buffer.reserve(max(4096, buffer.count))
        }
    }

    /// Gives the block back if nothing is in it; a few bytes that wait for the rest of their frame get memory of their own.
    func returnMemory(_ buffer: inout ByteBuffer) {
        if buffer.isEmpty {
            if let block = buffer.surrender(size: ScratchPool.blockSize) {
                loop.scratch.give(block)
            } else {
                buffer = ByteBuffer()
            }
        } else if buffer.capacity == ScratchPool.blockSize, buffer.count < ScratchPool.blockSize / 4 {
            var small = ByteBuffer(capacity: buffer.count * 2)
            buffer.withUnsafeReadableBytes { small.append(contentsOf: $0) }
            buffer.removeAll()
            if let block = buffer.surrender(size: ScratchPool.blockSize) { loop.scratch.give(block) }
            buffer = small
        }
    }
}
