import Protocols
import SocketIO
import TransportAPI

/// A connection over its own datagram socket, which is connected to its peer.
///
/// Such a socket keeps the local address that it got when it was connected. If that address is removed, or another
/// address becomes the right one for the peer, a new socket replaces it. The peer identifies the session by its id,
/// independent of the address.
final class DatagramChannel: ByteChannel {
    private let loop: EventLoop
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
    /// Whether a new socket has replaced the old one, and the driver does not know it yet.
    @exclusivity(unchecked) private var hasMoved = false

    /// Opens the socket.
    ///
    /// - Parameters:
    ///   - peer: The peer's address, for errors.
    ///   - largest: The longest datagram that is taken, in bytes. Longer ones are dropped.
    ///   - loop: The loop of the socket.
    ///   - open: Opens a socket that is connected to the peer. Called once now, and again for each new local address.
    init(
        to peer: SocketAddress? = nil,
        largest: Int,
        on loop: EventLoop,
        open: @escaping () throws(SystemError) -> DatagramSocket
    ) throws(SystemError) {
        self.peer = peer
        self.loop = loop
        self.open = open
        socket = try open()
        addressCheck = AddressCheck(now: loop.now)
        batch = DatagramBatch(largest: largest, tellsSenders: false)
        isIPv6 = socket.local?.isIPv6 == true
    }

    var isDatagram: Bool { true }
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

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if batch.isEmpty {
            let result = socket.receive(into: batch)
            mayHaveMore = !batch.wasLast
            guard case .bytes = result else { return result }
        }
        let count = batch.takeNext { datagram in
            let count = min(datagram.count, buffer.count)
            buffer.copyMemory(from: UnsafeRawBufferPointer(start: datagram.baseAddress, count: count))
            return count
        }
        guard let count, count > 0 else { return .end }
        received.add(count)
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool {
        batch.isEmpty && !mayHaveMore
    }

    var mayLookLater: Bool { batch.isEmpty && batch.wasFirst }

    func beginWriting() {
        if received.datagrams != receivedBefore {
            addressCheck.heard(now: loop.now)
            receivedBefore = received.datagrams
        }
        if addressCheck.isDue(now: loop.now) { _ = tryRenewing() }
    }

    func write(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        var result = socket.send(datagram)
        if case .failed(let error) = result, error.isLossOfAddress, tryRenewing() { result = socket.send(datagram) }
        if case .bytes(let count) = result { sent.add(count) }
        return result
    }

    private func tryRenewing() -> Bool {
        guard addressCheck.begin(now: loop.now), renew() else { return false }
        hasMoved = true
        return true
    }

    func takeAddressChange() -> Bool {
        defer { hasMoved = false }
        return hasMoved
    }

    func renew() -> Bool {
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
        guard phase == .open, channel.renew() else { return }
        // The new socket has room, and does not report that.
        setStuck(since: 0)
        reportPathChange()
    }

    /// Notifies the peer of this side's new address.
    func reportPathChange() {
        guard phase == .open else { return }
        enterCore()
        core.moved(&context)
        leaveCore()
    }
}

extension SystemError {
    /// Whether the error can mean that the local address was removed.
    var isLossOfAddress: Bool {
        [ENETUNREACH, EADDRNOTAVAIL, EHOSTUNREACH, ENETDOWN, EINVAL].contains(number)
    }
}
