import Protocols
import SocketIO
import TransportAPI

/// The channel of one session over HTTP: two streams of bytes that outlive the connections which carry them. Lives on its
/// loop.
final class HTTPServerChannel: ByteChannel {
    /// The end of the channel.
    enum Ending {
        /// The client may still fetch what was written.
        case closed
        /// Nothing more is delivered.
        case aborted
    }

    /// The stream to the client, from the first byte that it has not acknowledged on.
    // Exclusivity is unchecked, here and below, because no other code runs while these change.
    @exclusivity(unchecked) private(set) var output: RetainedStream
    /// The stream from the client, of which the driver has not read the last bytes.
    @exclusivity(unchecked) private(set) var input: ResumedInput
    /// How many bytes have arrived in requests, those of a request in progress among them.
    @exclusivity(unchecked) private(set) var bytesReceived: UInt64 = 0
    /// The connection over which a request arrives, and how many of its bytes are counted.
    @exclusivity(unchecked) private var arriving: (connection: UInt64, count: Int)?
    /// Whether the driver reads at this moment, and sees by itself that more has arrived.
    private var isBeingRead = false
    /// The driver, until it closes the channel.
    private var handler: (any PollHandler)?
    /// The session, until it ends.
    var session: HTTPSession?
    /// How the channel has ended; `nil` before.
    private(set) var ending: Ending?
    /// The address that the last request came from.
    var peer: SocketAddress?
    /// The encryption of the connection that has opened the session.
    let encryption: TLSDescription?

    init(window: Int, peer: SocketAddress?, encryption: TLSDescription?) {
        output = RetainedStream(window: window)
        input = ResumedInput(window: window)
        self.peer = peer
        self.encryption = encryption
    }

    var bytesSent: UInt64 { output.end }
    var bytesAcknowledged: UInt64 { max(output.start, min(output.end, session?.takenByClient ?? 0)) }
    var unacknowledgedBytes: Int { output.count }
    /// The bytes of a request that waits for room belong to the session too.
    var bufferedBytes: Int { output.bufferedBytes + input.bufferedBytes + (session?.waitingBytes ?? 0) }

    func attach(_ handler: any PollHandler) {
        self.handler = handler
    }

    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let count = input.read(into: buffer)
        guard count > 0 else { return input.isFinished ? .end : .wouldBlock }
        isBeingRead = true
        session?.inputTaken()
        isBeingRead = false
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { input.count == 0 && !input.isEnded }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        let count = output.write(bytes)
        guard count > 0 else { return output.isEnded ? .end : .wouldBlock }
        session?.outputChanged()
        return .bytes(count)
    }

    func shutdownWriting() -> Bool {
        guard !output.isEnded else { return true }
        output.finish()
        session?.outputChanged()
        return true
    }

    func close(abort: Bool) {
        handler = nil
        input.discard()
        if abort {
            ending = .aborted
            output.discard()
        } else {
            ending = .closed
            output.finish()
        }
        session?.channelClosed()
    }

    // MARK: From the session

    /// Counts the bytes of a request that have come over a connection so far.
    func arrives(_ count: Int, over connection: UInt64) {
        let counted = arriving?.connection == connection ? arriving?.count ?? 0 : 0
        bytesReceived += UInt64(max(0, count - counted))
        arriving = (connection, max(count, counted))
    }

    /// The request that arrived is complete.
    func hasArrived() { arriving = nil }

    /// Takes bytes of the client's stream, and lets the driver read them.
    func take(_ piece: [UInt8], at offset: UInt64, isLast: Bool) -> ResumedInput.Outcome {
        let (received, wasEnded) = (input.received, input.isEnded)
        let outcome = input.take(piece, at: offset, isLast: isLast)
        // After the end of the driver, the client may not know yet that nobody reads its last bytes.
        if ending != nil { input.discard() }
        let isNew = input.received > received || input.isEnded != wasEnded
        if isNew, !isBeingRead { handler?.ready(.read) }
        return outcome
    }

    /// Releases the bytes that the client has, and lets the driver write more.
    func acknowledge(before offset: UInt64) -> RetainedStream.Acknowledgement {
        let wasFull = output.room == 0
        let acknowledgement = output.acknowledge(before: offset)
        if wasFull, case .taken(1...) = acknowledgement { handler?.ready(.write) }
        return acknowledgement
    }
}
