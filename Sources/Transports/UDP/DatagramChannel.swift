import Protocols
import SocketIO
import TransportAPI

/// A connection over a datagram socket of its own, connected to its peer.
///
/// Such a socket keeps the address that it had when it was connected. When that one is gone, or the way to the peer begins at
/// another one, a fresh socket takes its place: the peer knows the session by its id, wherever it comes from.
final class DatagramChannel: ByteChannel {
    /// How often a fresh socket is tried because of failures or silence, in nanoseconds.
    static let renewalPause: Int64 = 1_000_000_000
    /// After so long without a word from the peer, the next datagram is one more reason to look for another address. (IPv6
    /// sends on from one that is gone, and says nothing.)
    static let silence: Int64 = 5_000_000_000

    private let open: () throws(SystemError) -> DatagramSocket
    // Unchecked exclusivity, here and below, because nobody is called while these change.
    @exclusivity(unchecked) private var socket: DatagramSocket
    private var handler: (any PollHandler)?
    @exclusivity(unchecked) private(set) var bytesSent: UInt64 = 0
    @exclusivity(unchecked) private(set) var bytesReceived: UInt64 = 0
    @exclusivity(unchecked) private var datagrams: UInt64 = 0
    @exclusivity(unchecked) private var received: UInt64 = 0
    /// What it was when something was sent last.
    @exclusivity(unchecked) private var receivedBefore: UInt64 = 0
    private let headerBytes: UInt64
    let peer: SocketAddress?
    private let batch: DatagramBatch
    /// Whether the kernel may have datagrams beyond the batch: those that came while it was worked off, too.
    @exclusivity(unchecked) private var mayHaveMore = false
    @exclusivity(unchecked) private var lastHeard: Int64
    @exclusivity(unchecked) private var renewAt: Int64 = 0

    /// - Parameters:
    ///   - open: opens a socket that is connected to the peer, once now and once for each address that this side may get.
    ///   - largest: the longest datagram that is taken, in bytes; longer ones are dropped.
    ///   - peer: the peer's address, for errors.
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
        // Without a handler it is closed, or not open yet. Without a way to the peer, the old socket is as good as any.
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
    /// The machine's addresses may be others by now.
    package func networkChanged() {
        guard phase == .open, channel.renew(Instant(nanoseconds: loop.now)) else { return }
        // The fresh socket has room, and will not report that.
        setStuck(since: 0)
        tellMove()
    }

    /// Lets the peer know where this one is by now.
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
    /// Whether the address from which something was sent may be no more.
    fileprivate var isLossOfAddress: Bool {
        [ENETUNREACH, EADDRNOTAVAIL, EHOSTUNREACH, ENETDOWN, EINVAL].contains(number)
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
