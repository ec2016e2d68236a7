import Primitives
import TransportAPI

/// A client's side of STOMP 1.2 (https://stomp.github.io/stomp-specification-1.2.html).
///
/// It sends CONNECT, and after CONNECTED it subscribes to the configured destinations. It is open when the broker has
/// given the receipt of each of these subscriptions, or when the first message arrives, because a broker may send all
/// messages of a queue before the next receipt. From a broker that gives no receipts it asks for none, and is open at once.
///
/// STOMP has no sessions. So nothing is sent again over the next connection: a message without its receipt has an
/// unknown outcome, and the broker sends a message without its ACK again by itself.
///
/// Both sides promise heart-beats. This side sends an empty line when it has nothing else to send, and a broker that is
/// silent for longer than agreed ends the connection. There is no ping.
///
/// A broker can only refuse something by ERROR, after which the connection ends, by this side if not by the broker. If
/// that names the receipt of a message, this message is reported as refused.
package struct STOMPClientCore: CarriedCore {
    enum Phase: Sendable {
        /// The core has not started.
        case idle
        /// CONNECTED must come by this time.
        case connecting(until: Instant)
        /// The receipts of the configured subscriptions must come by this time; so many are missing.
        case subscribing(until: Instant, missing: Int)
        /// Messages can be sent and received.
        case open
        /// This side has sent DISCONNECT, whose receipt must come by this time.
        case closing(CloseReason, until: Instant)
        /// ERROR has ended the connection, and the error is still to be thrown.
        case failed(TransportError)
        /// The connection has ended, and `closed` is still to be reported.
        case ending(CloseReason)
        /// The end was reported.
        case closed
    }

    package static let role = CoreRole.client
    package static var carriage: WebSocketCarriage { .stomp }

    let configuration: STOMPConfiguration
    var phase = Phase.idle
    var reader: STOMPFrameReader
    var receipts: STOMPReceipts
    var beats: STOMPHeartBeats
    var times = PathTimes()
    /// Events that come before the next frame.
    var deferred = Deque<CoreEvent>()
    /// The subscriptions, by their id on the wire: the configured ones from 1 on, those of the app from
    /// ``SubscriptionRequest/first``.
    var subscriptions: [UInt32: Subscription] = [:]
    /// The numbers of the configured subscriptions in received messages, if their owner has given them some.
    private var numbers: [UInt32] = []
    /// The requests of the app that are not answered, by their ids.
    private var requests: [UInt64: Request] = [:]
    /// Whether no message may leave until the app has its subscriptions.
    var isHeld = false
    /// Whether SUBSCRIBE and UNSUBSCRIBE ask for receipts.
    private var confirmsSubscriptions = true
    /// Whether the frames come over WebSocket.
    private var isInsideWebSocket = false
    /// Messages that were received and are not confirmed, oldest first. There are at most as many as the inbox holds.
    var unconfirmed = Deque<Unconfirmed>()
    /// The bytes of their names in ACK.
    var unconfirmedBytes = 0
    /// The headers of each SEND that do not depend on the message, as they are written: of texts, and of other
    /// messages.
    let headOfTexts: [UInt8]
    let headOfOthers: [UInt8]
    /// How many bytes of the input the last ``next(_:_:)`` left unread: the beginning of a line or a body.
    private var unread = 0

    /// A destination to which the client has subscribed.
    struct Subscription: Sendable {
        var destination: String
        /// Whether UNSUBSCRIBE is sent. Messages may arrive until its receipt. Without one, the entry stays until there is no
        /// room for another subscription.
        var isEnding = false
    }

    /// A request of the app about subscriptions. Each of them has a frame of its own.
    private struct Request: Sendable {
        /// How many receipts are missing.
        var missing: Int
        /// How many destinations it subscribes to.
        var count: Int
    }

    private static let connecting = STOMPCommands(.connected, .error)
    private static let connected = STOMPCommands(.message, .receipt, .error)

    /// Creates the core of one connection.
    ///
    /// - Throws: The errors of ``STOMPConfiguration/validate()``.
    package init(_ configuration: STOMPConfiguration) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        reader = STOMPFrameReader(configuration.limits, accepted: STOMPCommands())
        receipts = STOMPReceipts(
            window: configuration.maximumInFlight,
            timeout: configuration.receiptTimeout.wholeNanoseconds
        )
        beats = STOMPHeartBeats(margin: configuration.heartBeatMargin)
        headOfTexts = Self.sendHead(configuration, "text/plain;charset=utf-8")
        headOfOthers = Self.sendHead(configuration, "application/octet-stream")
    }

    /// The connection keeps itself alive if the broker has promised heart-beats, or may still do so.
    package var capabilities: Capabilities {
        let interval =
            switch phase {
            case .idle, .connecting: configuration.incomingHeartBeat?.wholeNanoseconds ?? 0
            case .subscribing, .open, .closing, .failed, .ending, .closed: beats.incoming
            }
        return Capabilities(
            hasNativePing: false,
            acknowledgesMessages: configuration.requestsReceipts,
            routesByTopic: true,
            distinguishesText: configuration.contentType == nil,
            maximumMessageSize: configuration.limits.body,
            keepaliveInterval: interval > 0 ? .nanoseconds(interval) : .seconds(60),
            keepsItselfAlive: interval > 0
        )
    }

    package var confirmsReceipt: Bool { configuration.ack != .auto }
    package var expected: ForeignProtocol.Expected? { .stomp }

    package mutating func enterWebSocket() { isInsideWebSocket = true }
    package mutating func noteArrival(at now: Instant) { times.lastReceived = now }
    package mutating func noteWaiting(_: Int) {}

    package mutating func start(_ context: inout CoreContext) {
        guard case .idle = phase else { return }
        phase = .connecting(until: context.now.advanced(by: configuration.handshakeTimeout))
        let offer = STOMPHeartBeats.offer(configuration)
        var headers = [STOMPHeader("accept-version", Self.version), STOMPHeader("host", configuration.host)]
        if let login = configuration.login { headers.append(STOMPHeader("login", login)) }
        if let passcode = configuration.passcode { headers.append(STOMPHeader("passcode", passcode)) }
        headers.append(STOMPHeader("heart-beat", "\(offer.outgoing),\(offer.incoming)"))
        write(STOMPFrame(.connect, headers + configuration.connectHeaders), &context)
        reader.accepted = Self.connecting
    }

    private static let version = "1.2"

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        // Any byte is a sign of life, so that a long message is not mistaken for silence.
        if input.count > unread { times.lastReceived = context.now }
        defer { unread = input.count }
        if let event = deferred.popFirst() { return event }
        switch phase {
        case .idle, .closed: return nil
        case .failed(let error): throw error
        case .ending(let reason):
            phase = .closed
            return .closed(reason)
        case .connecting, .subscribing, .open, .closing: break
        }
        let frame: STOMPFrame?
        defer { context.counters.controlWork &+= reader.takeLineEndWork() }
        do throws(TransportError) {
            frame = try reader.next(&input)
        } catch {
            throw foreign(error, input, &context)
        }
        guard let frame else { return nil }
        return try receive(frame, &context) ?? .progress
    }

    private mutating func receive(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if frame.command == .message { return try receiveMessage(frame, &context) }
        context.counters.controlFrames += 1
        switch frame.command {
        case .connected: return try receiveConnected(frame, &context)
        case .receipt: return try receiveReceipt(frame)
        case .error: return try receiveError(frame)
        default: throw violation("\(frame.command.name) is out of place here")
        }
    }

    /// The error for first bytes that are no frame, which can be of another protocol.
    private func foreign(
        _ error: TransportError,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError {
        guard case .connecting = phase, reader.isBetweenFrames, !isInsideWebSocket else { return error }
        let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        return other.error(insteadOf: error, expected: .stomp, by: .client, isEncrypted: context.isEncrypted)
    }

    func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, reader.phase, sentence)
    }

    mutating func write(_ frame: STOMPFrame, _ context: inout CoreContext) {
        STOMPFrameWriter.write(frame, into: &context.output)
        context.counters.controlFrames += 1
        times.lastSent = context.now
    }

    /// The memory of a frame that has not arrived whole, and of the names of messages that are not confirmed.
    package var bufferedBytes: Int {
        mutating get { reader.bufferedBytes + unconfirmedBytes }
    }

    package mutating func connectionEnded() {
        reader = STOMPFrameReader(configuration.limits, accepted: STOMPCommands())
        subscriptions = [:]
        requests = [:]
        unconfirmed = Deque()
        unconfirmedBytes = 0
    }
}

// CONNECT to CONNECTED, and the subscriptions.
extension STOMPClientCore {
    private mutating func receiveConnected(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .connecting(let until) = phase else { throw violation("CONNECTED is out of place here") }
        guard let version = frame["version"] else { throw Self.otherVersion("1.0 (CONNECTED has no version)") }
        guard version.utf8.elementsEqual(Self.version.utf8) else {
            throw Self.otherVersion("'\(String(excerptOf: version.utf8))'")
        }
        if let text = frame["heart-beat"] {
            guard let promise = STOMPHeartBeats.read(text) else {
                let seen = String(excerptOf: text.utf8)
                throw violation("CONNECTED has heart-beat '\(seen)', expected were two numbers and a comma")
            }
            beats.agree(STOMPHeartBeats.offer(configuration), promise)
        }
        reader.accepted = Self.connected
        confirmsSubscriptions =
            switch configuration.subscriptionReceipts {
            case .auto: frame["server"] != nil
            case .on: true
            case .off: false
            }
        for (index, destination) in configuration.subscriptions.enumerated() {
            subscribe(destination, UInt32(index + 1), .configured(destination), &context)
        }
        guard confirmsSubscriptions, !configuration.subscriptions.isEmpty else { return opened() }
        phase = .subscribing(until: until, missing: configuration.subscriptions.count)
        return nil
    }

    private static func otherVersion(_ version: String) -> TransportError {
        let sentence = "the broker chose STOMP \(version); this client speaks 1.2: use a broker that does"
        return TransportError(.handshakeFailed, .handshake, sentence)
    }

    private mutating func subscribe(
        _ destination: String,
        _ number: UInt32,
        _ kind: STOMPReceipts.Kind,
        _ context: inout CoreContext
    ) {
        subscriptions[number] = Subscription(destination: destination)
        var headers = [
            STOMPHeader("id", "\(number)"),
            STOMPHeader("destination", destination),
            STOMPHeader("ack", configuration.ack.rawValue),
        ]
        if confirmsSubscriptions {
            headers.append(STOMPHeader("receipt", "\(receipts.begin(kind, now: context.now))"))
        }
        write(STOMPFrame(.subscribe, headers + configuration.subscribeHeaders), &context)
    }

    /// Messages may flow.
    mutating func opened() -> CoreEvent {
        phase = .open
        reader.phase = .open
        return .opened
    }

    private mutating func receiveReceipt(_ frame: STOMPFrame) throws(TransportError) -> CoreEvent? {
        guard let name = frame["receipt-id"] else { throw violation("RECEIPT has no receipt-id") }
        guard let kind = receipts.end(name) else {
            let seen = String(excerptOf: name.utf8)
            throw violation("RECEIPT has receipt-id '\(seen)', but no frame waits for this receipt")
        }
        switch kind {
        case .send(let id): return .acknowledged(id)
        case .configured:
            guard case .subscribing(let until, let missing) = phase else { return nil }
            guard missing == 1 else {
                phase = .subscribing(until: until, missing: missing - 1)
                return nil
            }
            return opened()
        case .subscribe(let id, _): return isAnswered(id).map { .subscription(.subscribed(id, granted($0.count))) }
        case .unsubscribe(let id, let subscription):
            // The destination may be subscribed to again under the same number.
            if subscriptions[subscription]?.isEnding == true { subscriptions[subscription] = nil }
            return isAnswered(id).map { _ in .subscription(.unsubscribed(id)) }
        case .disconnect:
            guard case .closing(let reason, _) = phase else { return nil }
            phase = .closed
            return .closed(reason)
        }
    }

    /// A receipt of a request has come. Returns the request if that was the last one.
    private mutating func isAnswered(_ id: UInt64) -> Request? {
        guard var request = requests[id] else { return nil }
        request.missing -= 1
        requests[id] = request.missing > 0 ? request : nil
        return request.missing > 0 ? nil : request
    }

    /// The guarantee of so many subscriptions, by how their messages are acknowledged.
    private func granted(_ count: Int) -> [Payload.QoS?] {
        Array(repeating: confirmsReceipt ? .atLeastOnce : .atMostOnce, count: count)
    }
}

extension STOMPClientCore: SubscribingCore {
    package var facts: SubscriberFacts {
        var facts = SubscriberFacts(.stomp)
        facts.filters = configuration.subscriptions
        facts.unclaimedWait = configuration.unclaimedWait
        return facts
    }

    package mutating func number(configured numbers: [UInt32]) {
        self.numbers = numbers
        for _ in 0..<deferred.count {
            guard let event = deferred.popFirst() else { return }
            guard case .message(var payload) = event else {
                deferred.append(event)
                continue
            }
            payload.subscription = number(of: payload.subscription)
            deferred.append(.message(payload))
        }
    }

    /// The number in received messages of the subscription with this id.
    func number(of id: UInt32) -> UInt32 {
        id > 0 && id <= numbers.count ? numbers[Int(id) - 1] : id
    }

    package mutating func holdMessages(alsoLater _: Bool) {
        if case .open = phase { isHeld = true }
    }

    package mutating func releaseMessages(_: inout CoreContext) {
        isHeld = false
    }

    /// Subscribes to destinations under the numbers of the requests. One that is subscribed to already, by the app or the
    /// configuration, needs no second SUBSCRIBE: its messages would come twice.
    ///
    /// - Throws: `.invalidConfiguration` for a destination that cannot be written, `.wouldBlock` while there are 1,024
    ///   subscriptions.
    package mutating func subscribe(
        _ requests: [SubscriptionRequest],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SubscriptionSignal? {
        for request in requests { try STOMPCheck.destination(request.filter, "subscribe") }
        try checkOpen()
        let known = Set(subscriptions.values.lazy.filter { !$0.isEnding }.map { FilterKey($0.destination) })
        let missing = requests.filter { !known.contains(FilterKey($0.filter)) }
        guard !missing.isEmpty else { return .subscribed(id, granted(requests.count)) }
        if !confirmsSubscriptions, subscriptions.count + missing.count > STOMPCheck.maximumSubscriptions {
            subscriptions = subscriptions.filter { !$0.value.isEnding }
        }
        guard subscriptions.count + missing.count <= STOMPCheck.maximumSubscriptions else {
            throw TransportError(.wouldBlock, .open, "there are \(subscriptions.count) subscriptions already")
        }
        for request in missing { subscribe(request.filter, request.number, .subscribe(id, request.filter), &context) }
        guard confirmsSubscriptions else { return .subscribed(id, granted(requests.count)) }
        self.requests[id] = Request(missing: missing.count, count: requests.count)
        return nil
    }

    /// Ends the subscriptions to destinations. One to which there is none needs no UNSUBSCRIBE.
    package mutating func unsubscribe(
        _ filters: [String],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SubscriptionSignal? {
        try checkOpen()
        let ended = Set(filters.map(FilterKey.init))
        let numbers = subscriptions.filter {
            !$0.value.isEnding && ended.contains(FilterKey($0.value.destination))
        }.keys.sorted()
        guard !numbers.isEmpty else { return .unsubscribed(id) }
        for number in numbers {
            subscriptions[number]?.isEnding = true
            var headers = [STOMPHeader("id", "\(number)")]
            if confirmsSubscriptions {
                let receipt = receipts.begin(.unsubscribe(id, subscription: number), now: context.now)
                headers.append(STOMPHeader("receipt", "\(receipt)"))
            }
            write(STOMPFrame(.unsubscribe, headers), &context)
        }
        guard confirmsSubscriptions else { return .unsubscribed(id) }
        requests[id] = Request(missing: numbers.count, count: 0)
        return nil
    }
}

// The end of a connection, by the broker or by this side, and the deadlines.
extension STOMPClientCore {
    private mutating func receiveError(_ frame: STOMPFrame) throws(TransportError) -> CoreEvent? {
        let cause = frame["receipt-id"].flatMap { receipts.end($0) }
        let refusal = STOMPRefusal(frame)
        switch phase {
        case .connecting: throw refusal.ofConnect(configuration)
        case .closing(var reason, _):
            reason.error = refusal.ofConnection(.closing)
            guard case .send(let id)? = cause else {
                phase = .closed
                return .closed(reason)
            }
            phase = .ending(reason)
            return .refused(id, refusal.ofMessage)
        case .idle, .subscribing, .open, .failed, .ending, .closed: break
        }
        switch cause {
        case .send(let id):
            phase = .failed(refusal.ofConnection(.open))
            return .refused(id, refusal.ofMessage)
        case .configured(let destination): throw refusal.ofSubscription(to: destination, reader.phase)
        case .subscribe(let id, let destination):
            // The connection fails like any other that the broker ends, so that a supervisor opens the next one without
            // this subscription.
            phase = .failed(refusal.ofConnection(.open))
            let error = refusal.ofSubscription(to: destination, .open)
            return .subscription(.refused(id, filter: destination, error))
        case .unsubscribe, .disconnect, nil:
            if case .subscribing = phase { throw refusal.ofConnect(configuration) }
            throw refusal.ofConnection(.open)
        }
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        // The broker has closed the connection before its ERROR was complete.
        if let frame = reader.begunError {
            let event = try receiveError(frame)
            if case .failed(let error) = phase { throw error }
            if let event { return event }
        }
        switch phase {
        case .closing(let reason, _), .ending(let reason):
            // A broker may close before this side receives the receipt (section "Connection Lingering").
            phase = .closed
            return .closed(reason)
        case .closed: return .closed(.user)
        case .failed(let error): throw error
        case .idle, .connecting, .subscribing:
            throw TransportError(.closedByPeer, .handshake, "the peer closed the connection during the handshake")
        case .open:
            guard unread == 0, reader.isBetweenFrames else {
                let sentence = "the peer closed the connection in the middle of a frame"
                throw TransportError(.connectionLost, .open, sentence)
            }
            phase = .closed
            return .closed(CloseReason(.peer, text: "the broker closed the connection"))
        }
    }

    /// Sends DISCONNECT with a receipt and waits for that, so that the broker is known to have received everything
    /// before. Nothing but heart-beats follows.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .idle: phase = .ending(reason)
        case .connecting:
            write(STOMPFrame(.disconnect), &context)
            phase = .ending(reason)
        case .subscribing, .open:
            let receipt = receipts.begin(.disconnect, now: context.now)
            write(STOMPFrame(.disconnect, [STOMPHeader("receipt", "\(receipt)")]), &context)
            phase = .closing(reason, until: context.now.advanced(by: configuration.closeTimeout))
        case .failed: phase = .ending(reason)
        case .closing, .ending, .closed: break
        }
    }

    package var deadline: Instant? {
        mutating get {
            switch phase {
            case .idle, .failed, .ending, .closed: nil
            case .connecting(let until): until
            case .subscribing(let until, _), .closing(_, let until): earlier(until, beats.due(times))
            case .open: earlier(receipts.deadline, earlier(beats.due(times), beats.silenceDue(times)))
            }
        }
    }

    package var lateHandshake: String {
        guard case .subscribing(_, let missing) = phase else { return "no CONNECTED came in time" }
        return "the receipts of \(missing) subscriptions did not come in time"
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        times.look(at: context)
        switch phase {
        case .idle, .failed, .ending, .closed: return
        case .connecting(let until), .subscribing(let until, _):
            guard until > context.now else { throw TransportError(.timedOut, .handshake, lateHandshake) }
        case .closing(var reason, let until):
            let extended = max(until, times.outputMoved.advanced(by: configuration.closeTimeout))
            guard extended > context.now else {
                reason.error = TransportError(.timedOut, .closing, "no receipt of DISCONNECT came in time")
                phase = .ending(reason)
                return
            }
            phase = .closing(reason, until: extended)
        case .open:
            if let due = beats.silenceDue(times), due <= context.now {
                let sentence = "the broker was silent, but has promised a heart-beat every \(beats.promise)"
                throw TransportError(.keepaliveTimeout, .open, sentence)
            }
            if let due = receipts.deadline, due <= context.now, receipts.isOverdue(times, now: context.now) {
                throw TransportError(.acknowledgementTimeout, .open, "a RECEIPT did not come in time")
            }
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
