import Protocols
import SocketIO
import TransportAPI

/// A connection over its own datagram socket, which is connected to its peer.
///
/// Such a socket keeps the local address that it got when it was connected. If that address is removed, or another
/// address becomes the right one for the peer, a new socket replaces it. The peer identifies the session by its id,
/// independent of the address.
final class DatagramChannel: ByteChannel {
    /// The shortest time between two attempts with a new socket because of failures or silence, in nanoseconds.
    static let renewalPause: Int64 = 1_000_000_000
    /// The time without a datagram of the peer after which the next datagram causes a check for another local address,
    /// in nanoseconds. IPv6 sends from a removed address without an error.
    static let silence: Int64 = 5_000_000_000

    private let open: () throws(SystemError) -> DatagramSocket
    // Exclusivity is unchecked, here and below, because no other code runs while these change.
    @exclusivity(unchecked) private var socket: DatagramSocket
    private var handler: (any PollHandler)?
    @exclusivity(unchecked) private(set) var bytesSent: UInt64 = 0
    @exclusivity(unchecked) private(set) var bytesReceived: UInt64 = 0
    @exclusivity(unchecked) private var datagrams: UInt64 = 0
    @exclusivity(unchecked) private var received: UInt64 = 0
    /// The value of `received` when a datagram was last sent.
    @exclusivity(unchecked) private var receivedBefore: UInt64 = 0
    private let headerBytes: UInt64
    let peer: SocketAddress?
    private let batch: DatagramBatch
    /// Whether the kernel may have datagrams in addition to the batch, including those that came while the batch was
    /// processed.
    @exclusivity(unchecked) private var mayHaveMore = false
    @exclusivity(unchecked) private var lastHeard: Int64
    @exclusivity(unchecked) private var renewAt: Int64 = 0

    /// Opens the socket.
    ///
    /// - Parameters:
    ///   - peer: The peer's address, for errors.
    ///   - largest: The longest datagram that is taken, in bytes. Longer ones are dropped.
    ///   - now: The current time.
    ///   - open: Opens a socket that is connected to the peer. Called once now, and again for each new local address.
    init(
        to peer: SocketAddress? = nil,
        largest: Int,
        now: Int64,
        open: @escaping () throws(SystemError) -> DatagramSocket
    ) throws(SystemError) {
        self.peer = peer
        self.open = open
        socket = try open()
        lastHeard = now
        batch = DatagramBatch(largest: largest, tellsSenders: false)
        headerBytes = socket.local?.isIPv6 == true ? 48 : 28
    }

    var isDatagram: Bool { true }
    var roundTripsToConnect: Int { 0 }

    var segmentCounts: SegmentCounts? {
        SegmentCounts(sent: datagrams, received: received, headerBytes: (datagrams + received) * headerBytes)
    }

    func attach(_ handler: any PollHandler) throws(SystemError) {
        try socket.attach(handler)
        self.handler = handler
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

    var mayLookLater: Bool { batch.isEmpty && batch.wasFirst }

    func flush(_ context: inout CoreContext) -> IOResult {
        let now = context.now.nanoseconds
        if received != receivedBefore { (lastHeard, receivedBefore) = (now, received) }
        var hasMoved = now - lastHeard >= Self.silence && tryRenewing(now)
        let result = DatagramOutput.flush(&context) { datagram in
            var result = socket.send(datagram)
            if case .failed(let error) = result, error.isLossOfAddress, tryRenewing(now) {
                hasMoved = true
                result = socket.send(datagram)
            }
            if case .bytes(let count) = result {
                bytesSent += UInt64(count)
                datagrams += 1
            }
            return result
        }
        if hasMoved { context.hasMoved = true }
        return result
    }

    private func tryRenewing(_ now: Int64) -> Bool {
        guard renewAt <= now else { return false }
        renewAt = now + Self.renewalPause
        return renew(Instant(nanoseconds: now))
    }

    func renew(_: Instant) -> Bool {
        // Without a handler the channel is closed or not attached yet. Without a path to the peer a new socket is no
        // better than the old one.
        guard let handler, let fresh = try? open() else { return false }
        guard fresh.local?.host != socket.local?.host, (try? fresh.attach(handler)) != nil else {
            fresh.close()
            return false
        }
        socket.close()
        socket = fresh
        return true
    }

    func shutdownWriting() -> Bool { false }

    func close(abort _: Bool) {
        handler = nil
        socket.close()
    }
}

extension ConnectionDriver {
    /// Handles a possible change of the machine's addresses.
    package func networkChanged() {
        guard phase == .open, channel.renew(Instant(nanoseconds: loop.now)) else { return }
        // The new socket has room, and does not report that.
        setStuck(since: 0)
        tellMove()
    }

    /// Notifies the peer of this side's new address.
    func tellMove() {
        context.hasMoved = false
        guard phase == .open, var roaming = core as? any RoamingCore else { return }
        enterCore()
        roaming.moved(&context)
        core = roaming
        leaveCore()
    }
}

extension SystemError {
    /// Whether the error can mean that the local address was removed.
    var isLossOfAddress: Bool {
        [ENETUNREACH, EADDRNOTAVAIL, EHOSTUNREACH, ENETDOWN, EINVAL].contains(number)
    }
}

/// Sends the datagrams that a core has written.
enum DatagramOutput {
    /// The largest UDP payload over IPv4 (RFC 768).
    static let largest = 65_507

    /// Passes each datagram of the output to `send`. If the kernel has no room, the rest stays in the output. A
    /// datagram that the kernel refuses for another reason is dropped, as on a lossy network. The size of a datagram
    /// that is too long is recorded for the core.
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
