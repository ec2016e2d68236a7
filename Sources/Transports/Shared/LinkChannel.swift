import SocketIO
import TransportAPI

/// What lies below a link: a byte stream, a datagram socket of its own, or a session of a shared one. Lives on its loop.
protocol LinkChannel: AnyObject {
    /// Whether each read gives one datagram, of which nothing is left over.
    var isDatagram: Bool { get }
    /// Round trips that were spent before there was a channel.
    var roundTripsToConnect: Int { get }
    /// Bytes handed to the kernel.
    var bytesSent: UInt64 { get }
    /// Bytes taken from the kernel.
    var bytesReceived: UInt64 { get }
    /// What the kernel has counted, where it tells.
    var segmentCounts: SegmentCounts? { get }

    /// Starts reporting readiness to `handler`.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Remembers what the handler was told.
    func note(_ readiness: Readiness)
    /// The far side's address, where it has one.
    var peer: SocketAddress? { get }
    /// Reads once, behind what `input` holds, and at most `limit` bytes of a stream.
    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult
    /// Whether, after a read of `count` bytes into room for `capacity`, nothing more can be there now.
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Hands the output to the kernel: `.bytes` when all of it went, `.wouldBlock` when some is left.
    func flush(_ context: inout CoreContext) -> IOResult
    /// Tells the far side that nothing more will come; `false` where the protocol below has no such thing.
    func shutdownWriting() -> Bool
    /// Closes; with `abort`, without delivering what the kernel still holds.
    func close(abort: Bool)
}

extension LinkChannel {
    /// None.
    var peer: SocketAddress? { nil }
}

/// A link over a byte stream.
final class StreamChannel: LinkChannel {
    private let stream: any ByteStream
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0

    let roundTripsToConnect: Int

    init(_ stream: any ByteStream, roundTripsToConnect: Int = 1) {
        self.stream = stream
        self.roundTripsToConnect = roundTripsToConnect
    }

    var isDatagram: Bool { false }
    var segmentCounts: SegmentCounts? { stream.segmentCounts() }
    var peer: SocketAddress? { stream.peer }

    func attach(_ handler: any PollHandler) throws(SystemError) {
        try stream.attach(handler)
    }

    func note(_ readiness: Readiness) {
        stream.note(readiness)
    }

    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult {
        var result = IOResult.wouldBlock
        _ = input.write(minimum: 1) { target in
            result = stream.read(into: UnsafeMutableRawBufferPointer(rebasing: target.prefix(max(limit, 1))))
            guard case .bytes(let count) = result else { return 0 }
            bytesReceived += UInt64(count)
            return count
        }
        return result
    }

    func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        stream.isDrained(afterReading: count, of: capacity)
    }

    func flush(_ context: inout CoreContext) -> IOResult {
        while !context.output.isEmpty {
            let result = context.output.withUnsafeReadableBytes { stream.write($0) }
            guard case .bytes(let count) = result else { return result }
            bytesSent += UInt64(count)
            context.output.consume(count)
        }
        return .bytes(0)
    }

    func shutdownWriting() -> Bool {
        stream.shutdownWriting()
        return true
    }

    func close(abort: Bool) {
        stream.close(abort: abort)
    }
}

/// A link over a datagram socket of its own, connected to its peer.
final class DatagramChannel: LinkChannel {
    private let socket: DatagramSocket
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    private var datagrams: UInt64 = 0
    private var received: UInt64 = 0
    private let headerBytes: UInt64
    private let batch: DatagramBatch
    /// Whether the kernel may have datagrams beyond the batch: those that came while it was worked off, too.
    private var mayHaveMore = false

    /// - Parameter largest: the longest datagram that is taken, in bytes; longer ones are dropped.
    init(_ socket: DatagramSocket, largest: Int) {
        self.socket = socket
        batch = DatagramBatch(largest: largest)
        headerBytes = socket.local?.isIPv6 == true ? 48 : 28
    }

    var isDatagram: Bool { true }
    var roundTripsToConnect: Int { 0 }

    var segmentCounts: SegmentCounts? {
        SegmentCounts(sent: datagrams, received: received, headerBytes: (datagrams + received) * headerBytes)
    }

    func attach(_ handler: any PollHandler) throws(SystemError) {
        try socket.attach(handler)
    }

    func note(_ readiness: Readiness) {
        if readiness.contains(.read) { mayHaveMore = true }
    }

    func read(into input: inout ByteBuffer, atMost _: Int) -> IOResult {
        if batch.isEmpty {
            let result = socket.receive(into: batch)
            mayHaveMore = !batch.wasLast
            guard case .bytes = result else { return result }
        }
        let count = batch.takeNext { datagram in
            input.append(contentsOf: datagram)
            return datagram.count
        }
        guard let count, count > 0 else { return .end }
        bytesReceived += UInt64(count)
        received += 1
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool {
        batch.isEmpty && !mayHaveMore
    }

    func flush(_ context: inout CoreContext) -> IOResult {
        DatagramOutput.flush(&context) { datagram in
            let result = socket.send(datagram)
            if case .bytes(let count) = result {
                bytesSent += UInt64(count)
                datagrams += 1
            }
            return result
        }
    }

    func shutdownWriting() -> Bool { false }

    func close(abort _: Bool) {
        socket.close()
    }
}

/// Sending what a datagram core has written.
enum DatagramOutput {
    /// The largest UDP payload over IPv4 (RFC 768).
    static let largest = 65_507

    /// Gives each datagram of the output to `send`. What the kernel has no room for stays; a datagram that it refuses for
    /// another reason is dropped, as the network might have done; of one that was too long the core hears.
    static func flush(_ context: inout CoreContext, _ send: (UnsafeRawBufferPointer) -> IOResult) -> IOResult {
        var start = 0
        var sent = 0
        var result = IOResult.bytes(0)
        for end in context.datagramEnds {
            let outcome = context.output.withUnsafeReadableBytes { all in
                end <= all.count && start < end ? send(UnsafeRawBufferPointer(rebasing: all[start..<end])) : .bytes(0)
            }
            if outcome == .wouldBlock {
                result = .wouldBlock
                break
            }
            if case .failed(let error) = outcome {
                if error.number == ECONNREFUSED { result = outcome }
                if error.number == EMSGSIZE {
                    context.refusedDatagram = min(context.refusedDatagram ?? .max, end - start)
                }
            }
            start = end
            sent += 1
        }
        context.output.consume(start)
        if sent == context.datagramEnds.count {
            context.datagramEnds.removeAll(keepingCapacity: true)
        } else {
            context.datagramEnds.removeFirst(sent)
            for index in context.datagramEnds.indices { context.datagramEnds[index] -= start }
        }
        return result
    }
}
