import Protocols
import SocketIO
import TransportAPI

/// A connection over its own datagram socket, which is connected to its peer.
///
/// Such a socket keeps the local address that it got when it was connected. If that address is removed, or another
/// address becomes the right one for the peer, a new socket replaces it. The peer identifies the session by its id,
/// independent of the address.
final class DatagramChannel: ByteChannel {
    private let open: () throws(SystemError) -> DatagramSocket
    // Exclusivity is unchecked, here and below, because no other code runs while these change.
    @exclusivity(unchecked) private var socket: DatagramSocket
    private var handler: (any PollHandler)?
    @exclusivity(unchecked) private var sent = DatagramCount()
    @exclusivity(unchecked) private var received = DatagramCount()
    /// The number of received datagrams when one was last sent.
    @exclusivity(unchecked) private var receivedBefore: UInt64 = 0
    private let isIPv6: Bool
    let peer: SocketAddress?
    private let batch: DatagramBatch
    /// Whether the kernel may have datagrams in addition to the batch, including those that came while the batch was
    /// processed.
    @exclusivity(unchecked) private var mayHaveMore = false
    @exclusivity(unchecked) private var addressCheck: AddressCheck

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
        addressCheck = AddressCheck(now: now)
        batch = DatagramBatch(largest: largest, tellsSenders: false)
        isIPv6 = socket.local?.isIPv6 == true
    }

    var isDatagram: Bool { true }
    var roundTripsToConnect: Int { 0 }
    var bytesSent: UInt64 { sent.bytes }
    var bytesReceived: UInt64 { received.bytes }
    var segmentCounts: SegmentCounts? { SegmentCounts(sent: sent, received: received, isIPv6: isIPv6) }

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
        received.add(count)
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool {
        batch.isEmpty && !mayHaveMore
    }

    var mayLookLater: Bool { batch.isEmpty && batch.wasFirst }

    func flush(_ context: inout CoreContext) -> IOResult {
        let now = context.now.nanoseconds
        if received.datagrams != receivedBefore {
            addressCheck.heard(now: now)
            receivedBefore = received.datagrams
        }
        var hasMoved = addressCheck.isDue(now: now) && tryRenewing(now)
        let result = DatagramOutput.flush(&context) { datagram in
            var result = socket.send(datagram)
            if case .failed(let error) = result, error.isLossOfAddress, tryRenewing(now) {
                hasMoved = true
                result = socket.send(datagram)
            }
            if case .bytes(let count) = result { sent.add(count) }
            return result
        }
        if hasMoved { context.hasMoved = true }
        return result
    }

    private func tryRenewing(_ now: Int64) -> Bool {
        addressCheck.begin(now: now) && renew(Instant(nanoseconds: now))
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
        reportPathChange()
    }

    /// Notifies the peer of this side's new address.
    func reportPathChange() {
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
