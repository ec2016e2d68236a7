import Primitives
import Protocols
import SocketIO

/// One end of an in-memory connection. It belongs to one connection and lives on its loop.
final class MemoryChannel: ByteChannel {
    private let loop: EventLoop
    private let incoming: MemoryPipe
    private let outgoing: MemoryPipe
    /// The connection's driver, until it closes the channel.
    private var handler: (any PollHandler)?
    // Exclusivity is unchecked because no other code runs while these change.
    @exclusivity(unchecked) private(set) var bytesSent: UInt64 = 0
    @exclusivity(unchecked) private(set) var bytesReceived: UInt64 = 0

    init(incoming: MemoryPipe, outgoing: MemoryPipe, on loop: EventLoop) {
        self.incoming = incoming
        self.outgoing = outgoing
        self.loop = loop
    }

    /// The number of bytes that the other end has not read.
    var unacknowledgedBytes: Int { outgoing.count }
    var bytesAcknowledged: UInt64 { bytesSent - min(bytesSent, UInt64(outgoing.count)) }

    func attach(_ handler: any PollHandler) {
        self.handler = handler
        let end = LoopBound(self, to: loop)
        // The closures are made once, and not for each message.
        let read: MemoryPipe.Signal = { end.value.handler?.ready(.read) }
        let write: MemoryPipe.Signal = { end.value.handler?.ready(.write) }
        incoming.setReader { [loop] in loop.execute(read) }
        outgoing.setWriter { [loop] in loop.execute(write) }
        // Bytes can have arrived before the reader was set.
        loop.execute(read)
    }

    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let result = incoming.read(into: buffer)
        if case .bytes(let count) = result { bytesReceived += UInt64(count) }
        return result
    }

    func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        count < capacity && incoming.awaitsMore()
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        let result = outgoing.write(bytes)
        if case .bytes(let count) = result { bytesSent += UInt64(count) }
        return result
    }

    func shutdownWriting() -> Bool {
        outgoing.end()
        return true
    }

    func close(abort _: Bool) {
        handler = nil
        outgoing.end()
        incoming.close()
    }
}
