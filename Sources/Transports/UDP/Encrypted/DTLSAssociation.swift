import Primitives
import Protocols
import SocketIO
import TransportAPI

/// One association of DTLS: an engine, the timer of its handshake, and the way to the peer. Lives on its loop.
final class DTLSAssociation {
    private enum Phase {
        case handshake(DTLSHandshakeQuota)
        case open
        case closed
    }

    private let engine: any DatagramTLSEngine
    private let loop: EventLoop
    private let transmit: (UnsafeRawBufferPointer) -> IOResult
    private var timer: UInt64?
    @exclusivity(unchecked) private var phase = Phase.handshake(DTLSHandshakeQuota())
    /// Whether the last datagram may contain another record.
    @exclusivity(unchecked) private(set) var mayHaveMore = false
    /// The datagrams that were sent, including those of the handshake and alerts.
    @exclusivity(unchecked) private(set) var sent = DatagramCount()
    /// Called when a handshake has failed while it repeated datagrams.
    var onFailure: ((TLSFailure) -> Void)?

    /// Creates an association that has sent nothing.
    ///
    /// - Parameter transmit: Sends one datagram to the peer.
    init(
        _ engine: any DatagramTLSEngine,
        on loop: EventLoop,
        transmit: @escaping (UnsafeRawBufferPointer) -> IOResult
    ) {
        self.engine = engine
        self.loop = loop
        self.transmit = transmit
    }

    /// The result of the handshake, once it is complete.
    var description: TLSDescription? { engine.description }
    /// Whether the handshake is complete, and the association was not closed.
    var isOpen: Bool { if case .open = phase { true } else { false } }

    // MARK: Steps

    /// Continues the handshake with a datagram, or begins that of a client without one.
    func handshake(_ datagram: UnsafeRawBufferPointer) -> TLSStep.End {
        var datagram = datagram
        if !datagram.isEmpty {
            guard case .handshake(var quota) = phase else { return .needsInput }
            datagram = quota.admit(datagram)
            phase = .handshake(quota)
            guard !datagram.isEmpty else { return .needsInput }
        }
        let step = use { engine, output in engine.handshake(datagram, &output) }
        if case .done = step.end {
            phase = .open
            mayHaveMore = true
        }
        setTimer()
        return step.end
    }

    /// Decrypts a datagram into `target`, and returns the content of its first record. Without a datagram, it returns
    /// the next record of the last one.
    func read(_ datagram: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> TLSStep {
        let step = use { engine, output in engine.read(datagram, into: target, &output) }
        if case .done = step.end { mayHaveMore = true } else { mayHaveMore = false }
        return step
    }

    /// Encrypts and sends a message. The result has the number of bytes that were sent; 0 if the association is not open,
    /// so that the message is lost as on a lossy network.
    func write(_ message: UnsafeRawBufferPointer) -> IOResult {
        guard message.count <= DTLS.largestRecord else { return .failed(SystemError("send", EMSGSIZE)) }
        guard isOpen else { return .bytes(0) }
        var result = IOResult.bytes(0)
        let block = loop.takeBlock()
        var output = TLSOutput(UnsafeMutableRawBufferPointer(start: block, count: ScratchPool.blockSize))
        let step = engine.write(message, &output)
        output.forEachDatagram { result = send($0) }
        loop.giveBlock(block)
        // The datagram was an alert, and not the message.
        if case .failed(let failure) = step.end { return .insecure(failure) }
        return result
    }

    private func use(_ call: (any DatagramTLSEngine, inout TLSOutput) -> TLSStep) -> TLSStep {
        let block = loop.takeBlock()
        var output = TLSOutput(UnsafeMutableRawBufferPointer(start: block, count: ScratchPool.blockSize))
        let step = call(engine, &output)
        output.forEachDatagram { datagram in
            if case .failed(let error) = send(datagram), error.number == EMSGSIZE { engine.shrink() }
        }
        loop.giveBlock(block)
        return step
    }

    private func send(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        let result = transmit(datagram)
        if case .bytes(let count) = result { sent.add(count) }
        return result
    }

    // MARK: Time

    private func setTimer() {
        if let timer { loop.cancel(timer: timer) }
        timer = nil
        if case .closed = phase { return }
        guard let timeout = engine.timeout else { return }
        timer = loop.schedule(at: loop.now + max(timeout, 1_000_000)) { [self] in
            timer = nil
            let step = use { engine, output in engine.timeoutReached(&output) }
            if case .failed(let failure) = step.end { onFailure?(failure) }
            setTimer()
        }
    }

    /// Notifies the peer of the end (close_notify), and stops.
    func close() {
        let wasOpen = isOpen
        if case .closed = phase { return }
        phase = .closed
        onFailure = nil
        if wasOpen {
            _ = use { engine, output in
                engine.end(&output)
                return TLSStep(.done)
            }
        }
        if let timer { loop.cancel(timer: timer) }
        timer = nil
    }
}
