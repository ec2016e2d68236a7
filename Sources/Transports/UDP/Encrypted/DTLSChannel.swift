import Primitives
import Protocols
import SocketIO
import TransportAPI

/// A connection over its own datagram socket, encrypted by DTLS.
///
/// The server identifies an association by the client's address. So the connection ends if this side's address changes,
/// and the supervisor opens another one.
final class DTLSChannel: ByteChannel {
    private enum Phase {
        /// Nothing was sent.
        case idle
        case handshake
        case open
        /// The server has ended the association by close_notify.
        case ended
        /// Each read returns the failure.
        case failed(TLSFailure)
    }

    /// How many datagrams without a message are dropped in one read.
    private static let droppedAtOnce = 64

    private let open: () throws(SystemError) -> DatagramSocket
    private let socket: DatagramSocket
    private let association: DTLSAssociation
    private let loop: EventLoop
    private let batch: DatagramBatch
    private let isIPv6: Bool
    let peer: SocketAddress?
    /// The connection that uses the channel, until it closes the channel.
    private var driver: ConnectionDriver?
    private var handshake: DTLSHandshakeFilter
    /// The timer that gives the alert of ``handshake`` to the engine.
    private var alertTimer: (id: UInt64, due: Int64)?
    /// The doubt about the server; `nil` if the protocol above has no pings.
    private var doubt: ServerDoubt?
    private var doubtTimer: UInt64?
    // Exclusivity is unchecked because no other code runs while these change.
    @exclusivity(unchecked) private var phase = Phase.idle
    /// Whether the kernel may have datagrams in addition to the batch.
    @exclusivity(unchecked) private var mayHaveMore = false
    @exclusivity(unchecked) private var addressCheck: AddressCheck
    @exclusivity(unchecked) private var received = EncryptedDatagramCount()
    /// The bytes of the messages that were sent, before their encryption.
    @exclusivity(unchecked) private var messageBytes: UInt64 = 0

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
        handshake = DTLSHandshakeFilter(deadline: deadline)
        doubt = hasPings ? ServerDoubt() : nil
        let socket = try open()
        self.socket = socket
        addressCheck = AddressCheck(now: loop.now)
        batch = DatagramBatch(largest: largest, tellsSenders: false)
        isIPv6 = socket.local?.isIPv6 == true
        association = DTLSAssociation(engine, on: loop) { socket.send($0) }
    }

    var isDatagram: Bool { true }
    var roundTripsToConnect: Int { handshake.roundTrips }
    var bytesSent: UInt64 { association.sent.bytes }
    var bytesReceived: UInt64 { received.all.bytes }
    var foreignBytes: UInt64 { received.foreignBytes }
    var tlsBytesSent: UInt64 { bytesSent - min(bytesSent, messageBytes) }
    var encryption: TLSDescription? { association.description }

    var segmentCounts: SegmentCounts? {
        SegmentCounts(sent: association.sent, received: received.all, isIPv6: isIPv6)
    }

    func attach(_ handler: any PollHandler) throws(SystemError) {
        try socket.attach(handler)
        driver = handler as? ConnectionDriver
    }

    func note(_ readiness: Readiness) {
        if readiness.contains(.read) { mayHaveMore = true }
    }

    // MARK: The handshake

    func advance() -> HandshakeProgress {
        switch phase {
        case .handshake: break
        case .open, .ended: return .ready
        case .failed(let reason): return .failed(.insecure(reason))
        case .idle:
            phase = .handshake
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
            received.addOfHandshake(datagram.count)
            let part = handshake.receive(datagram, sent: association.sent.datagrams, now: loop.now)
            setAlertTimer()
            return part.isEmpty ? .needsInput : association.handshake(part)
        }
        return progress(end ?? .needsInput)
    }

    private func progress(_ end: TLSStep.End) -> HandshakeProgress {
        switch end {
        case .done:
            phase = .open
            addressCheck.heard(now: loop.now)
            return .ready
        case .needsInput, .needsOutput: return batch.isEmpty && !mayHaveMore ? .waiting : .again
        case .ended: return .failed(.insecure(TLSFailure(.other, "the server ended DTLS during the handshake")))
        case .failed(let failure): return .failed(.insecure(failure))
        }
    }

    private func setAlertTimer() {
        guard handshake.alertDue != alertTimer?.due else { return }
        if let timer = alertTimer.take() { loop.cancel(timer: timer.id) }
        guard let due = handshake.alertDue else { return }
        alertTimer = (loop.schedule(at: due) { [self] in passAlert() }, due)
    }

    private func passAlert() {
        alertTimer = nil
        guard let datagram = handshake.takeAlert(), !association.isOpen else { return }
        if case .failed(.insecure(let reason)) = progress(datagram.withUnsafeBytes { association.handshake($0) }) {
            fail(reason)
        }
    }

    var lateHandshake: String? { handshake.lateSentence }

    // MARK: Reading

    var hasEnded: Bool { if case .ended = phase { true } else { false } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if case .failed(let reason) = phase { return .insecure(reason) }
        var dropped = 0
        while !hasEnded {
            if let result = readRecord(into: buffer) { return result }
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
    private func readRecord(into buffer: UnsafeMutableRawBufferPointer) -> IOResult? {
        guard !association.mayHaveMore else { return decrypt(UnsafeRawBufferPointer(start: nil, count: 0), buffer) }
        let result: IOResult?? = batch.takeNext { datagram in
            received.add(datagram.count)
            guard let record = DTLSRecord(datagram) else { return nil }
            guard !record.isPlainAlert else {
                beginDoubt()
                return nil
            }
            return decrypt(datagram, buffer)
        }
        return result ?? nil
    }

    private func decrypt(_ datagram: UnsafeRawBufferPointer, _ buffer: UnsafeMutableRawBufferPointer) -> IOResult? {
        let step = association.read(datagram, into: buffer)
        switch step.end {
        case .done:
            addressCheck.heard(now: loop.now)
            received.decrypted()
            endDoubt()
            return step.count > 0 ? .bytes(step.count) : nil
        case .needsInput, .needsOutput: return nil
        case .ended:
            phase = .ended
            return .end
        case .failed(let reason):
            phase = .failed(reason)
            return .insecure(reason)
        }
    }

    /// Lets other connections run before more datagrams without a message are dropped.
    private func continueInNextTick() -> IOResult {
        // A job could still run in this tick.
        _ = loop.schedule(at: loop.now + 1) { [self] in driver?.ready(.read) }
        return .wouldBlock
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool {
        batch.isEmpty && !mayHaveMore && !association.mayHaveMore
    }

    var mayLookLater: Bool { batch.isEmpty && batch.wasFirst && !association.mayHaveMore }

    // MARK: A server that has lost its state

    private func beginDoubt() {
        if let first = doubt?.begin(now: loop.now) { setDoubtTimer(first) }
    }

    private func setDoubtTimer(_ time: Int64) {
        doubtTimer = loop.schedule(at: time) { [self] in
            doubtTimer = nil
            switch doubt?.step(now: loop.now) {
            case nil: break
            case .giveUp: fail(TLSFailure(.other, "the server does not know this encrypted connection any more"))
            case .ping(let next):
                driver?.reportPathChange()
                setDoubtTimer(next)
            }
        }
    }

    private func endDoubt() {
        guard doubt?.end() == true else { return }
        if let timer = doubtTimer.take() { loop.cancel(timer: timer) }
    }

    /// Ends the connection by the next read.
    private func fail(_ reason: TLSFailure) {
        switch phase {
        case .ended, .failed: return
        case .idle, .handshake, .open: phase = .failed(reason)
        }
        driver?.ready(.read)
    }

    // MARK: Writing

    func beginWriting() {
        if addressCheck.isDue(now: loop.now) { compareAddress() }
    }

    func write(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        let result = association.write(datagram)
        if case .bytes = result { messageBytes += UInt64(datagram.count) }
        if case .failed(let error) = result, error.isLossOfAddress { compareAddress() }
        return result
    }

    private func compareAddress() {
        guard addressCheck.begin(now: loop.now) else { return }
        // The driver is writing.
        let bound = LoopBound(self, to: loop)
        loop.execute { _ = bound.value.renew() }
    }

    /// Ends the connection if this side's address has changed. The server would not know the datagrams of another one.
    func renew() -> Bool {
        guard driver != nil, association.isOpen, let fresh = try? open() else { return false }
        let host = fresh.local?.host
        fresh.close()
        guard host != socket.local?.host else { return false }
        fail(TLSFailure(.other, "the address of this machine has changed, which ends a connection over DTLS"))
        return false
    }

    func shutdownWriting() -> Bool { false }

    func close(abort _: Bool) {
        driver = nil
        _ = handshake.takeAlert()
        setAlertTimer()
        endDoubt()
        association.close()
        socket.close()
    }
}
