import Primitives
import Protocols
import SocketIO
import TransportAPI

/// One association of DTLS: an engine, the timer of its handshake, and the way to the peer. Lives on its loop.
final class DTLSAssociation {
    /// How many datagrams of one handshake are processed. Further ones are dropped.
    private static let handshakeDatagrams = 512
    /// How many encrypted records may come during a handshake. OpenSSL buffers the others that come before the keys, with
    /// about 17 KiB for each. Further ones are dropped. A client repeats the end of its handshake at most eight times within
    /// the time limit.
    private static let earlyRecords = DTLSRecord.EarlyQuota(messages: 8, others: 8)

    private let engine: any DatagramTLSEngine
    private let loop: EventLoop
    private let transmit: (UnsafeRawBufferPointer) -> IOResult
    private var timer: UInt64?
    private var datagrams = 0
    private var earlyLeft = earlyRecords
    private var isClosed = false
    /// Whether the last datagram may contain another record.
    @exclusivity(unchecked) private(set) var mayHaveMore = false
    /// How many bytes and datagrams were sent.
    @exclusivity(unchecked) private(set) var bytesSent: UInt64 = 0
    @exclusivity(unchecked) private(set) var datagramsSent: UInt64 = 0
    /// Whether the handshake is complete.
    @exclusivity(unchecked) private(set) var isComplete = false
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

    // MARK: Steps

    /// Continues the handshake with a datagram, or begins that of a client without one.
    func handshake(_ datagram: UnsafeRawBufferPointer) -> TLSStep.End {
        var datagram = datagram
        if !datagram.isEmpty {
            guard let record = DTLSRecord(datagram) else { return .needsInput }
            // No message of the application is plain. Encrypted ones that exceed their quota take none from the handshake.
            if record.isMessage, record.isPlain || earlyLeft.messages == 0 { return .needsInput }
            datagrams += 1
            guard datagrams <= Self.handshakeDatagrams else { return .needsInput }
            datagram = DTLSRecord.beginning(of: datagram, encrypted: &earlyLeft)
            guard !datagram.isEmpty else { return .needsInput }
        }
        let step = use { engine, output in engine.handshake(datagram, &output) }
        if case .done = step.end {
            isComplete = true
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

    /// Encrypts and sends a message. The result has the number of bytes that were sent.
    func write(_ message: UnsafeRawBufferPointer) -> IOResult {
        var result = IOResult.failed(SystemError("send", EMSGSIZE))
        guard isComplete, message.count <= DTLS.largestRecord else { return result }
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
        if case .bytes(let count) = result {
            bytesSent += UInt64(count)
            datagramsSent += 1
        }
        return result
    }

    // MARK: Time

    private func setTimer() {
        if let timer { loop.cancel(timer: timer) }
        timer = nil
        guard !isClosed, let timeout = engine.timeout else { return }
        timer = loop.schedule(at: loop.now + max(timeout, 1_000_000)) { [self] in
            timer = nil
            let step = use { engine, output in engine.timeoutReached(&output) }
            if case .failed(let failure) = step.end { onFailure?(failure) }
            setTimer()
        }
    }

    /// Notifies the peer of the end (close_notify), and stops.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        onFailure = nil
        if isComplete {
            _ = use { engine, output in
                engine.end(&output)
                return TLSStep(.done)
            }
        }
        if let timer { loop.cancel(timer: timer) }
        timer = nil
    }
}
