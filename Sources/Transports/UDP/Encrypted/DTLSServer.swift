import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The association of a server with one client's address. Its sessions end with it. Lives on its loop.
final class DTLSClient {
    fileprivate enum Stage {
        /// It has no session, and perhaps no complete handshake.
        case new
        /// It has a session.
        case inUse
        case ended
    }

    let address: SocketAddress
    let id: DTLSListenerCore.HelloID
    fileprivate(set) var association: DTLSAssociation?
    /// The sessions whose datagrams this association carries.
    var sessions: Set<UInt64> = []
    /// The datagrams of its handshake that wait to be processed.
    fileprivate var waiting = Deque<[UInt8]>()
    fileprivate var stage = Stage.new
    /// The timer that ends it unless it gets a session.
    fileprivate var timer: UInt64?

    fileprivate init(_ address: SocketAddress, _ id: DTLSListenerCore.HelloID) {
        self.address = address
        self.id = id
    }

    /// The result of the handshake, once it is complete.
    fileprivate(set) var description: TLSDescription?
    fileprivate var isComplete: Bool { association?.isOpen ?? false }
}

/// The clients without a session in the order of their arrival.
private struct NewClients {
    /// These clients, among others that have a session or have ended.
    private var queue = Deque<DTLSClient>()
    private(set) var count = 0

    mutating func append(_ client: DTLSClient) {
        queue.append(client)
        count += 1
    }

    /// Returns the client that arrived first.
    mutating func oldest() -> DTLSClient? {
        while let first = queue.popFirst() { if first.stage == .new { return first } }
        return nil
    }

    /// Moves a client to its next stage. Removes those that are not new any more, once they are the majority.
    mutating func move(_ client: DTLSClient, to stage: DTLSClient.Stage) {
        guard client.stage != .ended else { return }
        let wasNew = client.stage == .new
        client.stage = stage
        guard wasNew else { return }
        count -= 1
        guard queue.count > 2 * count + 64 else { return }
        var left = Deque<DTLSClient>()
        while let first = queue.popFirst() { if first.stage == .new { left.append(first) } }
        queue = left
    }

    mutating func removeAll() {
        queue = Deque()
    }
}

/// DTLS between the shared socket of a server and its sessions (RFC 6347). Lives on its loop.
///
/// A ClientHello is answered without state until its sender has returned a cookie. Then the address has a handshake,
/// which takes its steps behind everything else that the loop does (``LoopQueue/handshake``). A client that begins another
/// handshake keeps its association until that handshake is complete (section 4.2.8), so that a forged or repeated
/// ClientHello ends nothing.
final class DTLSServer: ScheduledHandler {
    /// The limits of a server.
    struct Limits: Sendable {
        /// The maximum number of clients without a session. Beyond it, the oldest of them is ended.
        var handshakes: Int
        /// The time of a handshake, and then of a client without a session.
        var handshakeTimeout: Duration
        /// The time of a client without a session in plain mode, where a session begins with the first message.
        var sessionTimeout: Duration
    }

    /// How many datagrams of one handshake may wait.
    private static let waitingDatagrams = 16
    /// How many records of one datagram are processed. Clients of this package write one.
    private static let recordsInDatagram = 16

    private let limits: Limits
    private let makeEngine: () -> (any DatagramTLSEngine)?
    private let transmit: (UnsafeRawBufferPointer, SocketAddress) -> IOResult
    private let loop: EventLoop
    private var core: DTLSListenerCore
    private var random = RandomSource.system()
    private var reply = ByteBuffer()
    private var replies = ReplyRateLimiter()
    /// The clients whose handshakes are complete.
    private var clients: [SocketAddress: DTLSClient] = [:]
    /// The clients in a handshake, which may have an association already.
    private var joining: [SocketAddress: DTLSClient] = [:]
    /// The clients whose handshakes have datagrams to process.
    private var queue = Deque<DTLSClient>()
    private var newClients = NewClients()
    var schedule = ScheduleEntry()
    /// Whether no handshake begins any more.
    var isClosed = false
    /// Receives each decrypted datagram, which it empties.
    var onDatagram: ((inout ByteBuffer, DTLSClient, _ isSingle: Bool) -> Void)?
    /// Called with the sessions of a client whose association has ended. The failure is `nil` if the client has ended it.
    var onEnd: ((DTLSClient, TLSFailure?) -> Void)?
    /// Called with each handshake that has failed, and each datagram that was refused.
    var onRefusal: ((SocketAddress, TransportError) -> Void)?

    /// Creates a server without clients.
    ///
    /// - Parameters:
    ///   - makeEngine: Returns the engine of one handshake; `nil` without memory.
    ///   - transmit: Sends one datagram to an address.
    init(
        _ limits: Limits,
        on loop: EventLoop,
        makeEngine: @escaping () -> (any DatagramTLSEngine)?,
        transmit: @escaping (UnsafeRawBufferPointer, SocketAddress) -> IOResult
    ) {
        self.limits = limits
        self.makeEngine = makeEngine
        self.transmit = transmit
        self.loop = loop
        core = DTLSListenerCore(random: &random)
    }

    // MARK: Datagrams

    /// Processes a datagram from the socket.
    func receive(_ datagram: borrowing ByteBuffer, from sender: SocketAddress, _ isSingle: Bool) {
        guard let record = DTLSRecord(datagram) else { return refusePlain(datagram, sender) }
        guard record.isPlain else { return receiveEncrypted(datagram, record, from: sender, isSingle) }
        guard record.isHandshake else {
            // An alert can end a handshake only.
            if let client = joining[sender] { addToHandshake(datagram, client) }
            return
        }
        let decision = sender.withIdentity { identity in
            core.receive(
                datagram,
                from: identity,
                now: Instant(nanoseconds: loop.now),
                random: &random,
                reply: &reply
            )
        }
        switch decision {
        case .reply:
            guard !isClosed else { break }
            _ = reply.withUnsafeReadableBytes { transmit($0, sender) }
        case .accept(let id): begin(datagram, id, sender)
        case .drop:
            if let client = joining[sender] {
                addToHandshake(datagram, client)
            } else if let client = clients[sender] {
                // The client repeats its last flight, because the server's was lost (section 4.2.4).
                decrypt(datagram, client, isSingle)
            }
        }
    }

    private func receiveEncrypted(
        _ datagram: borrowing ByteBuffer,
        _ record: DTLSRecord,
        from sender: SocketAddress,
        _ isSingle: Bool
    ) {
        // The last datagrams of a handshake are encrypted, and the first messages can come before they are processed.
        // Alerts and messages belong to the association that is complete, if there is one.
        if let client = joining[sender], record.isHandshake || clients[sender] == nil {
            return addToHandshake(datagram, client)
        }
        if let client = clients[sender] { return decrypt(datagram, client, isSingle) }
        guard record.isMessage, datagram.count > DTLSRecord.alertSize else { return }
        // The client has an association that this server does not know. The alert makes it find out.
        sendAlert(to: sender)
    }

    private func refusePlain(_ datagram: borrowing ByteBuffer, _ sender: SocketAddress) {
        let isRequest = Datagram.isRequest(datagram)
        if isRequest { sendAlert(to: sender) }
        let sentence =
            isRequest
            ? "the client is not encrypted: it must use dtls:// instead of udp://" : "the datagram is not DTLS"
        let detail = TLSProblem.plainText.rawValue
        onRefusal?(sender, TransportError(.secureHandshakeFailed, .secure, sentence, detail: detail))
    }

    /// Sends an alert that is not encrypted. It is shorter than the datagrams that cause it.
    private func sendAlert(to sender: SocketAddress) {
        guard !isClosed, replies.take(loop.now) else { return }
        reply.removeAll()
        DTLSRecord.appendAlert(to: &reply)
        _ = reply.withUnsafeReadableBytes { transmit($0, sender) }
    }

    private func decrypt(_ datagram: borrowing ByteBuffer, _ client: DTLSClient, _ isSingle: Bool) {
        var content = ByteBuffer(blockOf: loop)
        datagram.withUnsafeReadableBytes { bytes in
            var rest = bytes
            var records = 0
            repeat {
                records += 1
                guard readRecord(rest, client, &content) else { break }
                if !content.isEmpty { onDatagram?(&content, client, isSingle) }
                content.removeAll()
                rest = UnsafeRawBufferPointer(start: nil, count: 0)
            } while client.stage != .ended && records < Self.recordsInDatagram
        }
        content.returnBlock(to: loop)
    }

    /// Returns whether there was a record of the application.
    private func readRecord(
        _ datagram: UnsafeRawBufferPointer,
        _ client: DTLSClient,
        _ content: inout ByteBuffer
    ) -> Bool {
        guard let association = client.association else { return false }
        var step = TLSStep(.needsInput)
        _ = content.write(minimum: DTLS.largestRecord) { target in
            step = association.read(datagram, into: target)
            return step.count
        }
        switch step.end {
        case .done: return true
        case .needsInput, .needsOutput: break
        case .ended: end(client, nil)
        case .failed(let failure): end(client, failure)
        }
        return false
    }

    // MARK: Handshakes

    /// Begins the handshake of a client that receives datagrams at its address.
    private func begin(_ datagram: borrowing ByteBuffer, _ id: DTLSListenerCore.HelloID, _ sender: SocketAddress) {
        if let client = joining[sender] {
            if client.id == id { return addToHandshake(datagram, client) }
            drop(client)
        }
        // A repeated ClientHello of an association that is complete.
        guard !isClosed, clients[sender]?.id != id else { return }
        let client = DTLSClient(sender, id)
        joining[sender] = client
        newClients.append(client)
        setTimer(client, limits.handshakeTimeout)
        addToHandshake(datagram, client)
        while newClients.count > limits.handshakes, let oldest = newClients.oldest() {
            let sentence = "more than \(limits.handshakes) clients are in their handshake; this is the oldest"
            refuse(oldest, .tooMany(sentence, .handshake))
        }
    }

    private func addToHandshake(_ datagram: borrowing ByteBuffer, _ client: DTLSClient) {
        guard client.waiting.count < Self.waitingDatagrams, datagram.count <= DTLS.largestHandshakeDatagram,
            let bytes = datagram.bytes(at: 0, count: datagram.count)
        else { return }
        client.waiting.append(bytes)
        if client.waiting.count == 1 { queue.append(client) }
        loop.add(self, to: .handshake)
    }

    /// Takes one step of one handshake.
    func run(_: LoopQueue) {
        while let client = queue.popFirst() {
            // Clients that have ended take no tick from others.
            guard client.stage != .ended, let datagram = client.waiting.popFirst() else { continue }
            datagram.withUnsafeBytes { step($0, client) }
            if !client.waiting.isEmpty, client.stage != .ended { queue.append(client) }
            break
        }
        if !queue.isEmpty { loop.add(self, to: .handshake) }
    }

    private func step(_ datagram: UnsafeRawBufferPointer, _ client: DTLSClient) {
        guard !client.isComplete else { return read(datagram, client) }
        guard let association = client.association ?? makeAssociation(client) else {
            return refuse(client, TransportError(.resourcesExhausted, .secure, "there is no memory for a handshake"))
        }
        switch association.handshake(datagram) {
        case .done: complete(client)
        case .needsInput, .needsOutput: break
        case .ended: drop(client)
        case .failed(let failure): refuse(client, TransportError(failure, wasOpen: false))
        }
    }

    private func read(_ datagram: UnsafeRawBufferPointer, _ client: DTLSClient) {
        var copy = ByteBuffer()
        copy.append(contentsOf: datagram)
        decrypt(copy, client, false)
    }

    private func makeAssociation(_ client: DTLSClient) -> DTLSAssociation? {
        guard let engine = makeEngine() else { return nil }
        let (transmit, address) = (transmit, client.address)
        let association = DTLSAssociation(engine, on: loop) { transmit($0, address) }
        association.onFailure = { [self] in refuse(client, TransportError($0, wasOpen: false)) }
        client.association = association
        return association
    }

    private func complete(_ client: DTLSClient) {
        joining[client.address] = nil
        client.description = client.association?.description
        // The client has lost its former association (section 4.2.8).
        if let former = clients[client.address] {
            end(former, TLSFailure(.other, "the client has begun another connection from the same address"))
        }
        clients[client.address] = client
        setTimer(client, limits.sessionTimeout)
        // The last datagram of the handshake may contain more records.
        read(UnsafeRawBufferPointer(start: nil, count: 0), client)
    }

    // MARK: Clients

    /// The client whose handshake from this address is complete.
    func client(at address: SocketAddress) -> DTLSClient? { clients[address] }

    /// Records that a session belongs to a client.
    func opened(_ session: UInt64, of client: DTLSClient) {
        client.sessions.insert(session)
        newClients.move(client, to: .inUse)
        if let timer = client.timer.take() { loop.cancel(timer: timer) }
    }

    /// Records the end of a session. The association ends with its last session.
    func closed(_ session: UInt64, of client: DTLSClient) {
        guard client.sessions.remove(session) != nil, client.sessions.isEmpty else { return }
        drop(client)
    }

    /// Ends a client that has no session.
    private func refuse(_ client: DTLSClient, _ error: TransportError) {
        guard client.stage != .ended else { return }
        drop(client)
        onRefusal?(client.address, error)
    }

    /// Ends a client and its sessions.
    private func end(_ client: DTLSClient, _ failure: TLSFailure?) {
        guard client.stage != .ended else { return }
        drop(client)
        if !client.sessions.isEmpty {
            onEnd?(client, failure)
        } else if let failure {
            onRefusal?(client.address, TransportError(failure, wasOpen: false))
        }
    }

    private func drop(_ client: DTLSClient) {
        guard client.stage != .ended else { return }
        newClients.move(client, to: .ended)
        client.waiting = Deque()
        if let timer = client.timer.take() { loop.cancel(timer: timer) }
        client.association?.close()
        // Frees the memory of OpenSSL, also while a queue still contains the client.
        client.association = nil
        core.ended(client.id, now: Instant(nanoseconds: loop.now))
        if joining[client.address] === client { joining[client.address] = nil }
        if clients[client.address] === client { clients[client.address] = nil }
    }

    /// Limits the time until the client has a session.
    private func setTimer(_ client: DTLSClient, _ time: Duration) {
        if let timer = client.timer.take() { loop.cancel(timer: timer) }
        client.timer = loop.schedule(at: Instant(nanoseconds: loop.now).advanced(by: time).nanoseconds) { [self] in
            client.timer = nil
            let sentence =
                client.isComplete
                ? "the client has opened no session after its DTLS handshake"
                : "the DTLS handshake was not complete in time"
            refuse(client, TransportError(.timedOut, .secure, sentence))
        }
    }

    /// Ends all clients.
    func close() {
        isClosed = true
        for client in Array(clients.values) + Array(joining.values) { drop(client) }
        queue = Deque()
        newClients.removeAll()
        (onDatagram, onEnd, onRefusal) = (nil, nil, nil)
    }
}
