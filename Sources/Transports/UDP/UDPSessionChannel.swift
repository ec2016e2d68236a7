import Protocols
import SocketIO
import TransportAPI

/// The channel of one session of a shared socket.
final class UDPSessionChannel: ByteChannel {
    private let acceptor: UDPAcceptor
    // Exclusivity is unchecked, here and below, because no other code runs while these change.
    @exclusivity(unchecked) private var path: PathValidator<SocketAddress>
    /// The session's driver, until it closes the channel.
    private var handler: (any PollHandler)?
    @exclusivity(unchecked) private var sent = DatagramCount()
    @exclusivity(unchecked) private var received = DatagramCount()
    @exclusivity(unchecked) private(set) var tlsBytesSent: UInt64 = 0

    /// Whether the socket has no room for this session's output. The acceptor notifies the session when there is room.
    var isBlocked = false
    /// The association that carries the session's datagrams; `nil` if the server is not encrypted.
    let client: DTLSClient?
    /// The identifier of the session in datagrams.
    let identifier: UInt64

    init(_ acceptor: UDPAcceptor, _ address: SocketAddress, _ session: UDPCore, _ client: DTLSClient?) {
        self.acceptor = acceptor
        self.client = client
        identifier = session.connectionID
        path = PathValidator(address)
    }

    /// The address to which the session's datagrams are sent.
    var address: SocketAddress { path.address }

    /// Handles the arrival of a datagram of the session. Replies go to its sender.
    func heard(
        _ datagram: borrowing ByteBuffer,
        from sender: SocketAddress,
        now: Instant,
        random: inout RandomSource
    ) {
        received.add(datagram.count + (client == nil ? 0 : DTLS.overhead))
        if let token = path.heard(datagram, from: sender, now, &random) { ask(token) }
    }

    private func ask(_ token: UInt64) {
        var ping = ByteBuffer(capacity: Datagram.pairSize)
        Datagram.append(.ping, identifier, token, to: &ping)
        _ = ping.withUnsafeReadableBytes { send($0) }
    }

    var isDatagram: Bool { true }
    var peer: SocketAddress? { address }
    var encryption: TLSDescription? { client?.description }

    var bytesSent: UInt64 { sent.bytes }
    var bytesReceived: UInt64 { received.bytes }
    var segmentCounts: SegmentCounts? { SegmentCounts(sent: sent, received: received, isIPv6: address.isIPv6) }

    func attach(_ handler: any PollHandler) {
        self.handler = handler
    }

    func writable() {
        handler?.ready(.write)
    }

    func note(_: Readiness) {}

    /// The acceptor passes datagrams to the driver, so there is nothing to read here.
    func read(into _: UnsafeMutableRawBufferPointer) -> IOResult { .wouldBlock }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { true }

    func beginWriting() {
        if let token = path.question(now) { ask(token) }
    }

    /// Sends a datagram. One that may not be sent is lost, as on a lossy network.
    func write(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        path.maySend(datagram.count, now) ? send(datagram) : .bytes(0)
    }

    private var now: Instant { Instant(nanoseconds: acceptor.loop.now) }

    private func send(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        let result = acceptor.send(datagram, for: self)
        if case .bytes(let count) = result {
            path.sent(datagram.count)
            sent.add(count)
            if client != nil { tlsBytesSent += UInt64(count - min(count, datagram.count)) }
        }
        return result
    }

    func shutdownWriting() -> Bool { false }

    func close(abort _: Bool) {
        handler = nil
    }
}

extension ConnectionDriver {
    /// Passes a datagram of this session to its core. Replies go to its sender from now on, and are sent at the end of
    /// the tick or at once.
    func deliver(
        datagram: inout ByteBuffer,
        from sender: SocketAddress,
        to session: UDPSessionChannel,
        andFlush flushesNow: Bool = false
    ) {
        guard phase == .opening || phase == .open else { return }
        share.isRunning = flushesNow
        reading.lastHeard = loop.now
        session.heard(datagram, from: sender, now: Instant(nanoseconds: loop.now), random: &context.random)
        swap(&reading.input, &datagram)
        pump()
        swap(&reading.input, &datagram)
        share.isRunning = false
        if flushesNow { flushIfRequested() } else { reportBufferedBytes() }
    }
}
