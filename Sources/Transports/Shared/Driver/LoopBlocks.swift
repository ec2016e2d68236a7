import Primitives
import Protocols
import SocketIO

// Blocks for reading and writing, which all connections of a loop share, so that an idle connection owns none.
extension ByteBuffer {
    /// The minimum room to read or write into, in bytes.
    static let leastRoom = 4096
    /// A partial frame shorter than this moves to a block when it needs room, in bytes.
    private static let shortPart = ScratchPool.blockSize / 4

    /// Creates a buffer with a block of the loop.
    init(blockOf loop: EventLoop) {
        self.init(adopting: loop.takeBlock(), capacity: ScratchPool.blockSize)
    }

    /// Makes sure that there is memory to write to, with some room. A message reserves its own length. A few bytes
    /// after a large output do not double the buffer.
    mutating func borrowBlock(of loop: EventLoop) {
        if capacity == 0 {
            self = ByteBuffer(blockOf: loop)
        } else if writableCount < Self.leastRoom {
            reserve(Self.leastRoom)
        }
    }

    /// Makes sure that there is memory to read into. A partial frame can be in memory of its own size. Once that is
    /// full, a short part moves to the front of a whole block, so that much can be read after it. A longer part grows
    /// in place and is read in larger and larger steps.
    mutating func borrowInput(of loop: EventLoop) {
        guard writableCount < Self.leastRoom else { return }
        if capacity < ScratchPool.blockSize, count < Self.shortPart {
            var block = ByteBuffer(blockOf: loop)
            withUnsafeReadableBytes { block.append(contentsOf: $0) }
            self = block
        } else {
            reserve(max(Self.leastRoom, count))
        }
    }

    /// Gives the block back if it is empty. A small rest, such as a partial frame, moves to memory of twice its length.
    /// It moves again only after half of it is consumed or the room is used up.
    mutating func returnBlock(to loop: EventLoop) {
        if isEmpty {
            if let block = surrender(size: ScratchPool.blockSize) {
                loop.giveBlock(block)
            } else {
                self = ByteBuffer()
            }
        } else if capacity >= ScratchPool.blockSize, count < capacity / 4 {
            var small = ByteBuffer(capacity: count * 2)
            withUnsafeReadableBytes { small.append(contentsOf: $0) }
            removeAll()
            if let block = surrender(size: ScratchPool.blockSize) { loop.giveBlock(block) }
            self = small
        }
    }

    /// How much memory a connection uses by this buffer: all of its capacity. Of a block, which it shares with other
    /// connections of the loop, only the bytes in it count.
    var ownMemory: Int { capacity == ScratchPool.blockSize ? count : capacity }
}
