import Primitives
import Protocols
import SocketIO

/// One end of an in-memory connection, as a connection sees it. Lives on its loop.
final class MemoryChannel: ByteChannel {
    private let loop: EventLoop
    private let incoming: MemoryPipe
    private let outgoing: MemoryPipe
    /// The connection's driver, until it closes the channel.
    private var handler: (any PollHandler)?
    // Unchecked exclusivity, because nobody is called while these change.
    @exclusivity(unchecked) private(set) var bytesSent: UInt64 = 0
    @exclusivity(unchecked) private(set) var bytesReceived: UInt64 = 0

    init(incoming: MemoryPipe, outgoing: MemoryPipe, on loop: EventLoop) {
        self.incoming = incoming
        self.outgoing = outgoing
        self.loop = loop
    }

    var isDatagram: Bool { false }
    var roundTripsToConnect: Int { 0 }
    var segmentCounts: SegmentCounts? { nil }
    /// What the other end has not read.
    var unacknowledgedBytes: Int { outgoing.count }

    func attach(_ handler: any PollHandler) {
        self.handler = handler
        let end = LoopBound(self, to: loop)
        // Made once, and not for each message.
        let read: MemoryPipe.Signal = { end.value.handler?.ready(.read) }
        let write: MemoryPipe.Signal = { end.value.handler?.ready(.write) }
        incoming.setReader { [loop] in loop.execute(read) }
        outgoing.setWriter { [loop] in loop.execute(write) }
        // Whatever came before somebody listened.
        loop.execute(read)
    }

    func note(_: Readiness) {}

    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult {
        var result = IOResult.wouldBlock
        _ = input.write(minimum: 1) { target in
            result = incoming.read(into: UnsafeMutableRawBufferPointer(rebasing: target.prefix(max(limit, 1))))
            guard case .bytes(let count) = result else { return 0 }
            bytesReceived += UInt64(count)
            return count
        }
        return result
    }

    func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        count < capacity && incoming.awaitsMore()
    }

    func flush(_ context: inout CoreContext) -> IOResult {
        while !context.output.isEmpty {
            let result = context.output.withUnsafeReadableBytes { outgoing.write($0) }
            guard case .bytes(let count) = result else { return result }
            bytesSent += UInt64(count)
            context.output.consume(count)
        }
        return .bytes(0)
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
