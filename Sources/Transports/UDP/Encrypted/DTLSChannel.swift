import Primitives
import Protocols
import SocketIO
import TransportAPI

/// A connection over its own datagram socket, encrypted by DTLS.
///
/// The server identifies an association by the client's address. So the connection ends if this side's address changes,
/// and the supervisor opens another one.
///
/// A server that has lost its state answers with an alert that is not encrypted. Any host can send such an alert, so it
/// ends nothing by itself. It causes pings, and the connection ends if nothing that is encrypted arrives within
/// ``answerTimeout``.
final class DTLSChannel: ByteChannel {
    /// The time for an encrypted datagram to arrive after an alert that is not encrypted, in nanoseconds.
    static let answerTimeout: Int64 = 3_000_000_000
    /// The time between two pings after such an alert, in nanoseconds.
    private static let pingPause: Int64 = 500_000_000
    /// The shortest time from one such alert that causes pings to the next one, in nanoseconds.
    private static let doubtPause: Int64 = 1_000_000_000
    /// How long an alert in a handshake, which any host can send, waits for the handshake to continue, in nanoseconds.
    private static let alertPause: Int64 = 1_000_000_000
    /// How long before the end of the attempt it is passed on at the latest, in nanoseconds.
    private static let alertMargin: Int64 = 5_000_000
    /// How many datagrams without a message are dropped in one read.
    private static let droppedAtOnce = 64

    private let open: () throws(SystemError) -> DatagramSocket
    private let socket: DatagramSocket
    private let association: DTLSAssociation
    private let loop: EventLoop
    private let batch: DatagramBatch
    private let hasPings: Bool
    private let deadline: Int64
    private let headerBytes: UInt64
    let peer: SocketAddress?
    private var driver: ConnectionDriver?
    private var hasStarted = false
    /// How many datagrams came during the handshake that are not DTLS, and whether an alert came that is not encrypted.
    private var foreignDatagrams = 0
    private var hasPlainAlert = false
    private var hasHandshakeRecord = false
    /// The alert that came since the last other datagram of the handshake, and the timer that passes it to the engine.
    private var alert: (datagram: [UInt8], timer: UInt64)?
    /// How many datagrams were sent when the last one arrived.
    private var sentBefore: UInt64 = 0
    /// When to end a connection whose server may have lost its state; `nil` if there is no doubt.
    private var doubtUntil: Int64?
    private var doubtTimer: UInt64?
    private var doubtAgainAt: Int64 = 0
    private var renewAt: Int64 = 0
    // Exclusivity is unchecked because no other code runs while these change.
    @exclusivity(unchecked) private var mayHaveMore = false
    @exclusivity(unchecked) private var failure: IOResult?
    @exclusivity(unchecked) private(set) var hasEnded = false
    @exclusivity(unchecked) private(set) var bytesReceived: UInt64 = 0
    @exclusivity(unchecked) private(set) var foreignBytes: UInt64 = 0
    /// The part of ``foreignBytes`` that the current datagram has, until one of its records is decrypted.
    @exclusivity(unchecked) private var doubtfulBytes: UInt64 = 0
    @exclusivity(unchecked) private var messageBytes: UInt64 = 0
    @exclusivity(unchecked) private var received: UInt64 = 0
    @exclusivity(unchecked) private var lastHeard: Int64

    /// Opens the socket.
    ///
    /// - Parameters:
    ///   - peer: The server's address.
    ///   - engine: The engine of a client.
    ///   - largest: The longest datagram that is taken, in bytes. Longer ones are dropped.
    ///   - hasPings: Whether the protocol above has pings.
    ///   - deadline: When the attempt ends, in nanoseconds of ``MonotonicClock``.
    ///   - open: Opens a socket that is connected to the server. Called once now, and again to compare the local address.
    init(
        to peer: SocketAddress,
        _ engine: any DatagramTLSEngine,
        largest: Int,
        hasPings: Bool,
        deadline: Int64,
        on loop: EventLoop,
        open: @escaping () throws(SystemError) -> DatagramSocket
    ) throws(SystemError) {
        self.peer = peer
        self.open = open
        self.loop = loop
        self.hasPings = hasPings
        self.deadline = deadline
        let socket = try open()
        self.socket = socket
        lastHeard = loop.now
        batch = DatagramBatch(largest: largest, tellsSenders: false)
        headerBytes = socket.local?.isIPv6 == true ? 48 : 28
        association = DTLSAssociation(engine, on: loop) { socket.send($0) }
    }

    var isDatagram: Bool { true }
    private(set) var roundTripsToConnect = 0
    var bytesSent: UInt64 { association.bytesSent }
    var tlsBytesSent: UInt64 { association.bytesSent - min(association.bytesSent, messageBytes) }
    var encryption: TLSDescription? { association.description }

    var segmentCounts: SegmentCounts? {
        let sent = association.datagramsSent
        return SegmentCounts(sent: sent, received: received, headerBytes: (sent + received) * headerBytes)
    }

    func attach(_ handler: any PollHandler) throws(SystemError) {
        try socket.attach(handler)
        driver = handler as? ConnectionDriver
    }

    func note(_ readiness: Readiness) {
        if readiness.contains(.read) { mayHaveMore = true }
    }

    // MARK: The handshake

    func advance() -> StreamProgress {
        if let failure { return .failed(failure) }
        guard !association.isComplete else { return .ready }
        guard hasStarted else {
            hasStarted = true
            association.onFailure = { [self] in fail($0) }
            return progress(association.handshake(UnsafeRawBufferPointer(start: nil, count: 0)))
        }
        if batch.isEmpty {
            let result = socket.receive(into: batch)
            mayHaveMore = !batch.wasLast
            switch result {
            case .bytes: break
            case .failed(let error) where error.number == ECONNREFUSED: return .failed(result)
            case .failed, .wouldBlock, .end, .insecure: return .waiting
            }
        }
        let end = batch.takeNext { datagram in
            received += 1
            bytesReceived += UInt64(datagram.count)
            let part = handshakePart(datagram)
            return part.isEmpty ? .needsInput : association.handshake(part)
        }
        return progress(end ?? .needsInput)
    }

    private func progress(_ end: TLSStep.End) -> StreamProgress {
        switch end {
        case .done:
            lastHeard = loop.now
            return .ready
        case .needsInput, .needsOutput: return batch.isEmpty && !mayHaveMore ? .waiting : .again
        case .ended: return .failed(.insecure(TLSFailure(.other, "the server ended DTLS during the handshake")))
        case .failed(let failure): return .failed(.insecure(failure))
        }
    }

    /// Returns the part of a datagram that goes to the engine at once. Any host can send an alert, and many alerts end a
    /// supervisor for ever. So an alert waits, and is forgotten if the handshake continues. That of a server that does not
    /// know this client never goes to the engine before the server has sent something else.
    private func handshakePart(_ datagram: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard DTLSRecord(datagram) != nil else {
            foreignDatagrams += 1
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        let parts = DTLSRecord.HandshakeParts(datagram)
        if parts.continuesHandshake {
            hasHandshakeRecord = true
            forgetAlert()
            if association.datagramsSent > sentBefore { roundTripsToConnect += 1 }
            sentBefore = association.datagramsSent
        }
        if !parts.alert.isEmpty { keep(parts.alert) }
        return parts.beginning
    }

    private func keep(_ datagram: UnsafeRawBufferPointer) {
        if !hasHandshakeRecord, DTLSRecord(datagram)?.isUnexpectedMessage(datagram) == true {
            hasPlainAlert = true
        } else if let alert {
            // A warning must not hide the reason that follows.
            let isFatal = alert.datagram.withUnsafeBytes { DTLSRecord.isFatal($0) }
            if !isFatal { self.alert?.datagram = Array(datagram) }
        } else {
            let time = min(loop.now + Self.alertPause, deadline - Self.alertMargin)
            let timer = loop.schedule(at: max(time, loop.now + 1)) { [self] in passAlert() }
            alert = (Array(datagram), timer)
        }
    }

    private func passAlert() {
        guard let datagram = alert.take()?.datagram, !association.isComplete else { return }
        if case .failed(let result) = progress(datagram.withUnsafeBytes { association.handshake($0) }) {
            failure = failure ?? result
            driver?.ready(.read)
        }
    }

    private func forgetAlert() {
        if let timer = alert.take()?.timer { loop.cancel(timer: timer) }
    }

    var lateHandshake: String? {
        if hasPlainAlert {
            return
                "the server refused the DTLS handshake by the alert that plain servers send: use udp://, or the port where the server speaks DTLS"
        }
        if foreignDatagrams > 0 {
            return
                "the server answered the DTLS handshake with \(foreignDatagrams) datagrams that are not DTLS: compare the scheme and the port"
        }
        return hasHandshakeRecord
            ? "the server did not complete the DTLS handshake in time"
            : "the server did not answer the DTLS handshake: compare the port, and whether the server listens with dtls://"
    }

    // MARK: Reading

    func read(into input: inout ByteBuffer, atMost _: Int) -> IOResult {
        if let failure { return failure }
        var dropped = 0
        while !hasEnded {
            if let result = readRecord(into: &input) { return result }
            guard !association.mayHaveMore, !hasEnded else { continue }
            guard dropped < Self.droppedAtOnce else { return continueInNextTick() }
            dropped += 1
            guard batch.isEmpty else { continue }
            let result = socket.receive(into: batch)
            mayHaveMore = !batch.wasLast
            guard case .bytes = result else { return result }
        }
        return .end
    }

    /// Reads the next record, of the last datagram or of the next one. Returns `nil` if it has no message.
    private func readRecord(into input: inout ByteBuffer) -> IOResult? {
        guard !association.mayHaveMore else { return decrypt(UnsafeRawBufferPointer(start: nil, count: 0), &input) }
        let result: IOResult?? = batch.takeNext { datagram in
            received += 1
            bytesReceived += UInt64(datagram.count)
            doubtfulBytes = UInt64(datagram.count)
            foreignBytes += doubtfulBytes
            guard let record = DTLSRecord(datagram) else { return nil }
            guard !record.isPlainAlert else {
                doubt()
                return nil
            }
            return decrypt(datagram, &input)
        }
        return result ?? nil
    }

    private func decrypt(_ datagram: UnsafeRawBufferPointer, _ input: inout ByteBuffer) -> IOResult? {
        var step = TLSStep(.needsInput)
        _ = input.write(minimum: DTLS.largestRecord) { target in
            step = association.read(datagram, into: target)
            return step.count
        }
        switch step.end {
        case .done:
            lastHeard = loop.now
            foreignBytes -= doubtfulBytes
            doubtfulBytes = 0
            endDoubt()
            return step.count > 0 ? .bytes(step.count) : nil
        case .needsInput, .needsOutput: return nil
        case .ended:
            hasEnded = true
            return .end
        case .failed(let reason):
            let result = IOResult.insecure(reason)
            failure = result
            return result
        }
    }

    /// Lets other connections run before more datagrams without a message are dropped.
    private func continueInNextTick() -> IOResult {
        let bound = LoopBound(self, to: loop)
        loop.execute { bound.value.driver?.ready(.read) }
        return .wouldBlock
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool {
        batch.isEmpty && !mayHaveMore && !association.mayHaveMore
    }

    var mayLookLater: Bool { batch.isEmpty && batch.wasFirst && !association.mayHaveMore }

    // MARK: A server that has lost its state

    /// Begins to ping the server.
    private func doubt() {
        guard hasPings, doubtUntil == nil, doubtAgainAt <= loop.now else { return }
        doubtAgainAt = loop.now + Self.doubtPause
        doubtUntil = loop.now + Self.answerTimeout
        pingInDoubt(after: 1)
    }

    private func pingInDoubt(after pause: Int64) {
        doubtTimer = loop.schedule(at: loop.now + pause) { [self] in
            doubtTimer = nil
            guard let doubtUntil else { return }
            guard loop.now < doubtUntil else {
                fail(TLSFailure(.other, "the server does not know this encrypted connection any more"))
                return
            }
            driver?.tellMove()
            pingInDoubt(after: Self.pingPause)
        }
    }

    private func endDoubt() {
        guard doubtUntil != nil else { return }
        doubtUntil = nil
        if let doubtTimer { loop.cancel(timer: doubtTimer) }
        doubtTimer = nil
    }

    /// Ends the connection by the next read.
    private func fail(_ reason: TLSFailure) {
        guard failure == nil else { return }
        failure = .insecure(reason)
        driver?.ready(.read)
    }

    // MARK: Writing

    func flush(_ context: inout CoreContext) -> IOResult {
        let now = context.now.nanoseconds
        if now - lastHeard >= DatagramChannel.silence { compareAddress(now) }
        return DatagramOutput.flush(&context) { datagram in
            let result = association.write(datagram)
            if case .bytes = result { messageBytes += UInt64(datagram.count) }
            if case .failed(let error) = result, error.isLossOfAddress { compareAddress(now) }
            return result
        }
    }

    private func compareAddress(_ now: Int64) {
        guard renewAt <= now else { return }
        renewAt = now + DatagramChannel.renewalPause
        // The driver is writing.
        let bound = LoopBound(self, to: loop)
        loop.execute { _ = bound.value.renew(Instant(nanoseconds: now)) }
    }

    /// Ends the connection if this side's address has changed. The server would not know the datagrams of another one.
    func renew(_: Instant) -> Bool {
        guard driver != nil, association.isComplete, let fresh = try? open() else { return false }
        let host = fresh.local?.host
        fresh.close()
        guard host != socket.local?.host else { return false }
        fail(TLSFailure(.other, "the address of this machine has changed, which ends a connection over DTLS"))
        return false
    }

    func shutdownWriting() -> Bool { false }

    func close(abort _: Bool) {
        driver = nil
        forgetAlert()
        endDoubt()
        association.close()
        socket.close()
    }
}
