import Primitives
import TransportAPI

/// A server's side of STOMP 1.2, for one client.
///
/// It is open when it has accepted CONNECT. It works in one of two ways: point to point, where payloads are messages, or
/// for a broker, which gets every frame as an ``STOMPSignal``. Point to point, a message is processed as soon as it is
/// reported, so its receipt is written then.
///
/// What a client may not do is answered by ERROR, which ends the connection. There are no transactions.
package struct STOMPServerCore: CarriedCore {
    private enum Phase: Sendable {
        /// The core has not started.
        case idle
        /// CONNECT must come by this time.
        case connecting(until: Instant)
        /// Messages can be sent and received.
        case open
        /// This side has closed the connection, and `closed` is still to be reported.
        case closing(CloseReason)
        /// The end was reported.
        case closed
    }

    /// A subscription of the client.
    private struct Subscription: Sendable {
        /// Counted from 1. Names of messages for ACK begin with it.
        var number: UInt64
        var id: String
        /// Empty if a broker routes.
        var destination: String
        var mode: STOMPAckMode
    }

    /// A message whose sender waits for ACK, point to point.
    private struct Sent: Sendable {
        var number: UInt64
        var subscription: UInt64
        var mode: STOMPAckMode
        /// The id under which the driver knows it.
        var id: UInt64
    }

    package static let role = CoreRole.server
    package static var carriage: WebSocketCarriage { .stomp }

    private let configuration: STOMPServerConfiguration
    private var phase = Phase.idle
    private var reader: STOMPFrameReader
    private var beats: STOMPHeartBeats
    private var times = PathTimes()
    /// Events that come before the next frame.
    private var deferred = Deque<CoreEvent>()
    /// The subscriptions, oldest first.
    private var subscriptions: [Subscription] = []
    private var lastSubscription: UInt64 = 0
    private var subscriptionBytes = 0
    private var sent = Deque<Sent>()
    private var lastMessage: UInt64 = 0
    private var isInsideWebSocket = false
    /// How many bytes of the input the last ``next(_:_:)`` left unread.
    private var unread = 0
    /// The client's address and port, if they are known.
    package var peer: String?
    package var clientCertificate: TLSCertificate?

    private static let connecting = STOMPCommands(.connect, .stomp)
    private static let connected = STOMPCommands(
        .send,
        .subscribe,
        .unsubscribe,
        .ack,
        .nack,
        .begin,
        .commit,
        .abort,
        .disconnect
    )

    /// Creates the core of one connection.
    ///
    /// - Throws: The errors of ``STOMPServerConfiguration/validate()``.
    package init(_ configuration: STOMPServerConfiguration) throws(TransportError) {
        try configuration.validate()
        var configuration = configuration
        // A message that is a little too large is read to its end, so that ERROR names its receipt. A client that sends far more
        // is refused at once.
        let (most, least) = (STOMPFrameReader.largestPassedOver, 1 << 20)
        configuration.limits.passedOver = min(
            most,
            max(least, configuration.limits.body.addingSaturated(configuration.limits.body))
        )
        self.configuration = configuration
        reader = STOMPFrameReader(configuration.limits, accepted: STOMPCommands())
        beats = STOMPHeartBeats(margin: configuration.heartBeatMargin)
    }

    package var capabilities: Capabilities {
        let interval = beats.incoming
        return Capabilities(
            hasNativePing: false,
            routesByTopic: true,
            distinguishesText: true,
            maximumMessageSize: configuration.limits.body,
            keepaliveInterval: interval > 0 ? .nanoseconds(interval) : .seconds(60),
            keepsItselfAlive: interval > 0
        )
    }

    package var expected: ForeignProtocol.Expected? { .stomp }
    package var lateHandshake: String { "no CONNECT came in time" }

    /// The memory that the client makes the server use, in bytes: of a frame that has not arrived whole, and of its
    /// subscriptions.
    package var bufferedBytes: Int {
        mutating get { reader.bufferedBytes + subscriptionBytes + sent.count * MemoryLayout<Sent>.stride }
    }

    package mutating func enterWebSocket() { isInsideWebSocket = true }
    package mutating func noteArrival(at now: Instant) { times.lastReceived = now }
    package mutating func noteWaiting(_: Int) {}

    package mutating func start(_ context: inout CoreContext) {
        guard case .idle = phase else { return }
        phase = .connecting(until: context.now.advanced(by: configuration.handshakeTimeout))
        reader.accepted = Self.connecting
    }

    package mutating func connectionEnded() {
        reader = STOMPFrameReader(configuration.limits, accepted: STOMPCommands())
        (subscriptions, subscriptionBytes, sent) = ([], 0, Deque())
    }

    // MARK: Frames

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if input.count > unread { times.lastReceived = context.now }
        defer { unread = input.count }
        if let event = deferred.popFirst() { return event }
        switch phase {
        case .idle, .closed: return nil
        case .closing(let reason):
            phase = .closed
            return .closed(reason)
        case .connecting, .open: break
        }
        let frame: STOMPFrame?
        defer { context.counters.controlWork &+= reader.takeLineEndWork() }
        do throws(TransportError) {
            frame = try reader.next(&input)
        } catch {
            throw foreign(error, input, &context) ?? refuse(error, nil, &context)
        }
        guard let frame else { return nil }
        return try receive(frame, &context) ?? .progress
    }

    private mutating func receive(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if frame.command == .send { return try receiveSend(frame, &context) }
        context.counters.controlFrames += 1
        switch frame.command {
        case .connect, .stomp: return try receiveConnect(frame, &context)
        case .subscribe: return try receiveSubscribe(frame, &context)
        case .unsubscribe: return try receiveUnsubscribe(frame, &context)
        case .ack, .nack: return try receiveAcknowledgement(frame, &context)
        case .disconnect:
            if let receipt = frame["receipt"] { write(receipt: receipt, &context) }
            phase = .closed
            reader.accepted = STOMPCommands()
            return .closed(CloseReason(.peer, text: "the client disconnected"))
        case .begin, .commit, .abort:
            throw refuse(TransportError(.unsupported, .open, Self.noTransactions), frame, &context)
        case .send, .message, .receipt, .error, .connected:
            throw violation("a client does not send \(frame.command.name)", frame, &context)
        }
    }

    /// The header that names this server. Clients of this package then know that it confirms subscriptions.
    private static let name = STOMPHeader("server", "im-transports")
    private static let noTransactions = "this server has no transactions"

    /// The error for first bytes that are certainly or possibly of another protocol, which gets an answer of its own;
    /// `nil` for a mistake in STOMP.
    private func foreign(
        _ error: TransportError,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError? {
        guard case .connecting = phase, reader.isBetweenFrames, !isInsideWebSocket else { return nil }
        let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        guard other.isForeign(to: .stomp) else { return nil }
        let isEncrypted = context.isEncrypted
        other.answer(expected: .stomp, isEncrypted: isEncrypted, to: &context.output, unixTime: context.unixTime)
        return other.error(insteadOf: error, expected: .stomp, by: .server, isEncrypted: isEncrypted)
    }

    private func write(_ frame: STOMPFrame, _ context: inout CoreContext) {
        STOMPFrameWriter.write(frame, into: &context.output)
        context.counters.controlFrames += 1
    }

    private mutating func write(receipt: String, _ context: inout CoreContext) {
        write(STOMPFrame(.receipt, [STOMPHeader("receipt-id", receipt)]), &context)
        times.lastSent = context.now
    }

    // MARK: Errors

    /// Answers with ERROR, after which the connection ends. Returns the error to throw.
    private func refuse(
        _ error: TransportError,
        _ frame: STOMPFrame?,
        _ context: inout CoreContext
    ) -> TransportError {
        var headers = [STOMPHeader("message", Self.line(error.reason))]
        if let receipt = frame?["receipt"] { headers.append(STOMPHeader("receipt-id", receipt)) }
        write(STOMPFrame(.error, headers), &context)
        return error
    }

    /// A text without NUL, which no header may have. Line ends are escaped.
    private static func line(_ text: String) -> String { String(text.map { $0 == "\0" ? " " : $0 }) }

    private func violation(
        _ sentence: String,
        _ frame: STOMPFrame?,
        _ context: inout CoreContext
    ) -> TransportError {
        refuse(TransportError(.protocolViolation, reader.phase, sentence), frame, &context)
    }

    private func header(
        _ name: String,
        of frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> String {
        guard let value = frame[name] else {
            throw violation("\(frame.command.name) has no \(name)", frame, &context)
        }
        return value
    }
}

// CONNECT and subscriptions.
extension STOMPServerCore {
    private mutating func receiveConnect(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .connecting = phase else {
            throw violation("\(frame.command.name) is out of place here", frame, &context)
        }
        let versions = (frame["accept-version"] ?? "1.0").split(separator: ",")
        guard versions.contains(where: { $0.utf8.elementsEqual("1.2".utf8) }) else {
            let sentence = "Version Mismatch: this server speaks STOMP 1.2"
            throw refuse(TransportError(.handshakeFailed, .handshake, sentence), frame, &context)
        }
        _ = try header("host", of: frame, &context)
        let own = configuration.shortestHeartBeat.wholeNanoseconds / 1_000_000
        if let text = frame["heart-beat"] {
            guard let asked = STOMPHeartBeats.read(text) else {
                throw violation("heart-beat is not two numbers and a comma", frame, &context)
            }
            beats.agree((own, own), asked)
        }
        if let rejection = configuration.authentication?(frame, peer, clientCertificate) {
            throw refuse(TransportError(rejection.code, .handshake, rejection.text), frame, &context)
        }
        write(
            STOMPFrame(
                .connected,
                [STOMPHeader("version", "1.2"), STOMPHeader("heart-beat", "\(own),\(own)"), Self.name]
            ),
            &context
        )
        times.lastSent = context.now
        reader.accepted = Self.connected
        reader.phase = .open
        phase = .open
        if configuration.routesSignals { deferred.append(.stomp(.connected)) }
        return .opened
    }

    private mutating func receiveSubscribe(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        context.counters.controlWork &+= 1
        let id = try header("id", of: frame, &context)
        let destination = try header("destination", of: frame, &context)
        guard let mode = STOMPAckMode(rawValue: frame["ack"] ?? STOMPAckMode.auto.rawValue) else {
            throw violation("SUBSCRIBE has an ack that is none of auto, client and client-individual", frame, &context)
        }
        guard !id.isEmpty, id.utf8.count <= configuration.maximumID else {
            throw violation("the id of a subscription has 1 to \(configuration.maximumID) bytes", frame, &context)
        }
        guard !subscriptions.contains(where: { $0.id.utf8.elementsEqual(id.utf8) }) else {
            throw violation("SUBSCRIBE has an id that another subscription has", frame, &context)
        }
        guard subscriptions.count < configuration.maximumSubscriptions else {
            let sentence = "there are \(subscriptions.count) subscriptions already"
            throw refuse(TransportError(.resourcesExhausted, .open, sentence), frame, &context)
        }
        let isRouted = configuration.routesSignals
        lastSubscription += 1
        let subscription = Subscription(
            number: lastSubscription,
            id: id,
            destination: isRouted ? "" : destination,
            mode: mode
        )
        subscriptions.append(subscription)
        subscriptionBytes += Self.size(subscription)
        let receipt = frame["receipt"]
        guard !isRouted else {
            return .stomp(.subscribed(id: id, destination: destination, mode, receipt: receipt))
        }
        if let receipt { write(receipt: receipt, &context) }
        return nil
    }

    private static func size(_ subscription: Subscription) -> Int {
        subscription.id.utf8.count + subscription.destination.utf8.count + MemoryLayout<Subscription>.stride
    }

    private mutating func receiveUnsubscribe(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        context.counters.controlWork &+= 1
        let id = try header("id", of: frame, &context)
        guard let index = subscriptions.firstIndex(where: { $0.id.utf8.elementsEqual(id.utf8) }) else {
            throw violation("UNSUBSCRIBE has the id of no subscription", frame, &context)
        }
        subscriptionBytes -= Self.size(subscriptions.remove(at: index))
        let receipt = frame["receipt"]
        guard !configuration.routesSignals else { return .stomp(.unsubscribed(id: id, receipt: receipt)) }
        if let receipt { write(receipt: receipt, &context) }
        return nil
    }
}

// Messages.
extension STOMPServerCore {
    private mutating func receiveSend(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let destination = try header("destination", of: frame, &context)
        guard frame["transaction"] == nil else {
            throw refuse(TransportError(.unsupported, .open, Self.noTransactions), frame, &context)
        }
        guard frame.isWhole else {
            let sentence = "the message has \(frame.bodySize) bytes, \(configuration.limits.body) are allowed"
            throw refuse(TransportError(.messageTooLarge, .open, sentence), frame, &context)
        }
        guard !configuration.routesSignals else { return .stomp(.sent(STOMPSent(frame, to: destination))) }
        let receipt = frame["receipt"]
        if let receipt { write(receipt: receipt, &context) }
        return .message(
            Payload(
                frame.body,
                kind: frame.isText ? .text : .binary,
                topic: destination,
                qos: receipt == nil ? .atMostOnce : .atLeastOnce
            )
        )
    }

    private mutating func receiveAcknowledgement(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let name = try header("id", of: frame, &context)
        let isProcessed = frame.command == .ack
        let receipt = frame["receipt"]
        guard !configuration.routesSignals else {
            let verdict: STOMPSignal.Verdict =
                isProcessed ? .processed : frame["requeue"] == "false" ? .drop : .giveBack
            return .stomp(.acknowledged(name: name, verdict, receipt: receipt))
        }
        if let receipt { write(receipt: receipt, &context) }
        guard let (subscription, number) = Self.read(name), number <= lastMessage else {
            context.counters.unexpectedAcknowledgements += 1
            context.counters.controlWork &+= 1
            return nil
        }
        // In the mode `client`, the earlier messages of the same subscription are acknowledged too, also by a message
        // for which no sender waits.
        let isOver: (Sent) -> Bool = { other in
            other.subscription == subscription
                && (other.number == number || other.number < number && other.mode == .client)
        }
        var left = Deque<Sent>()
        while let other = sent.popFirst() {
            guard isOver(other) else {
                left.append(other)
                continue
            }
            deferred.append(isProcessed ? .acknowledged(other.id) : .refused(other.id, Self.notProcessed))
        }
        sent = left
        return deferred.popFirst()
    }

    private static var notProcessed: TransportError {
        TransportError(.forbidden, .open, "the client has not processed the message (NACK)")
    }

    /// What ACK calls a message: the numbers of its subscription and its own.
    private static func name(_ subscription: UInt64, _ number: UInt64) -> String { "\(subscription)-\(number)" }

    private static func read(_ name: String) -> (subscription: UInt64, number: UInt64)? {
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let subscription = UInt64(parts[0]), let number = UInt64(parts[1]) else { return nil }
        return (subscription, number)
    }

    package func acknowledges(_ payload: Payload) -> Bool { payload.qos == .atLeastOnce }

    /// Sends a message to the client's subscription to the payload's topic. If it has none, to its oldest subscription.
    /// Only point to point.
    ///
    /// Only at ``Payload/QoS/atLeastOnce`` the outcome is that of ACK or NACK, if the subscription has either. A client
    /// sends ACK when it requests the next message, and a server that waited for that with each message could not send
    /// that next one.
    ///
    /// - Throws: `.notFound` if the client has no such subscription, `.unsupported` for a retained message and for one at
    ///   ``Payload/QoS/exactlyOnce``.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        try checkOpen()
        guard !payload.isRetained else { throw TransportError(.unsupported, .open, "STOMP has no retained messages") }
        guard payload.qos != .exactlyOnce else {
            throw TransportError(.unsupported, .open, "STOMP has no QoS 2: send at QoS 1")
        }
        guard payload.bytes.count <= configuration.limits.body else {
            let sentence = "the message has \(payload.bytes.count) bytes, \(configuration.limits.body) are allowed"
            throw TransportError(.messageTooLarge, .open, sentence)
        }
        guard let subscription = subscription(for: payload.topic) else {
            let place = payload.topic.map { " to '\(String(excerptOf: $0.utf8))'" } ?? ""
            throw TransportError(.notFound, .open, "the client has no subscription\(place)")
        }
        let isAwaited = subscription.mode != .auto && payload.qos == .atLeastOnce
        guard !isAwaited || sent.count < configuration.maximumInFlight else { return .blocked }
        lastMessage += 1
        let type = STOMPHeader(
            "content-type",
            payload.kind == .text ? "text/plain;charset=utf-8" : "application/octet-stream"
        )
        Self.encode(
            number: lastMessage,
            subscription: subscription.id,
            destination: subscription.destination,
            ack: subscription.mode == .auto ? nil : Self.name(subscription.number, lastMessage),
            [type],
            payload.bytes,
            into: &context.output
        )
        times.lastSent = context.now
        guard isAwaited else { return .written }
        sent.append(Sent(number: lastMessage, subscription: subscription.number, mode: subscription.mode, id: id))
        return .awaitingAcknowledgement
    }

    private func subscription(for topic: String?) -> Subscription? {
        guard let topic else { return subscriptions.first }
        return subscriptions.first { $0.destination.utf8.elementsEqual(topic.utf8) }
    }

    private func checkOpen() throws(TransportError) {
        switch phase {
        case .open: return
        case .closing, .closed: throw TransportError.notOpen(isOver: true)
        case .idle, .connecting: throw TransportError.notOpen(isOver: false)
        }
    }

    /// Writes frames that were encoded by one of the functions below.
    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        guard case .open = phase else { return }
        context.output.append(contentsOf: bytes)
        times.lastSent = context.now
    }

    /// Appends a MESSAGE to `output`.
    ///
    /// - Parameters:
    ///   - number: Its message-id.
    ///   - ack: What ACK calls it; `nil` if it is not to be acknowledged.
    ///   - headers: Further headers, such as its content-type.
    package static func encode(
        number: UInt64,
        subscription: String,
        destination: String,
        ack: String?,
        _ headers: [STOMPHeader],
        _ body: [UInt8],
        into output: inout ByteBuffer
    ) {
        STOMPFrameWriter.begin(.message, into: &output)
        STOMPFrameWriter.write("subscription", subscription, into: &output)
        STOMPFrameWriter.write("message-id", "\(number)", into: &output)
        STOMPFrameWriter.write("destination", destination, into: &output)
        if let ack { STOMPFrameWriter.write("ack", ack, into: &output) }
        for header in headers { STOMPFrameWriter.write(header.name, header.value, into: &output) }
        STOMPFrameWriter.end(body, into: &output)
    }

    /// Appends the RECEIPT of a frame to `output`.
    package static func encode(receipt: String, into output: inout ByteBuffer) {
        STOMPFrameWriter.write(STOMPFrame(.receipt, [STOMPHeader("receipt-id", receipt)]), into: &output)
    }

    /// Appends the ERROR that refuses a frame to `output`. The connection has to end after it.
    package static func encode(refusal message: String, receipt: String?, into output: inout ByteBuffer) {
        var headers = [STOMPHeader("message", line(message))]
        if let receipt { headers.append(STOMPHeader("receipt-id", receipt)) }
        STOMPFrameWriter.write(STOMPFrame(.error, headers), into: &output)
    }
}

// The end, and the deadlines.
extension STOMPServerCore {
    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch phase {
        case .closing(let reason):
            phase = .closed
            return .closed(reason)
        case .closed: return .closed(.user)
        case .idle, .connecting:
            throw TransportError(.closedByPeer, .handshake, "the peer closed the connection during the handshake")
        case .open:
            let missing = unread > 0 || !reader.isBetweenFrames ? "in the middle of a frame" : "without DISCONNECT"
            throw TransportError(.connectionLost, .open, "the peer closed the connection \(missing)")
        }
    }

    /// Ends the connection. A reason with an error is sent as ERROR; STOMP has no frame for a server that just stops.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .closing, .closed: return
        case .open:
            if let error = reason.error { _ = refuse(error, nil, &context) }
        case .idle, .connecting: break
        }
        phase = .closing(reason)
        reader.accepted = STOMPCommands()
    }

    package var deadline: Instant? {
        mutating get {
            switch phase {
            case .idle, .closing, .closed: return nil
            case .connecting(let until): return until
            case .open:
                let (beat, silence) = (beats.due(times), beats.silenceDue(times))
                guard let beat, let silence else { return beat ?? silence }
                return min(beat, silence)
            }
        }
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        guard case .open = phase else { throw TransportError(.timedOut, .handshake, lateHandshake) }
        times.look(at: context)
        if let due = beats.silenceDue(times), due <= context.now {
            let sentence = "the client was silent, but has promised a heart-beat every \(beats.promise)"
            throw refuse(TransportError(.keepaliveTimeout, .open, sentence), nil, &context)
        }
        guard let due = beats.due(times), due <= context.now else { return }
        STOMPFrameWriter.heartBeat(into: &context.output)
        context.counters.controlFrames += 1
        times.lastSent = context.now
    }

    /// - Throws: `.unsupported`, because STOMP has no ping.
    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        throw TransportError(.unsupported, .open, "STOMP has no ping")
    }
}
