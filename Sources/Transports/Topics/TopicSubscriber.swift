import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Keeps the app's subscriptions at the broker, over one connection after the other, and passes the answers to the
/// waiting callers. Lives on the loop of the connections.
final class TopicSubscriber {
    typealias Answer = Result<Void, TransportError>

    /// A caller that waits for the answer to a request.
    struct Waiter {
        let id: UInt64
        /// The number of the request.
        let number: UInt64
        let isSubscribing: Bool
        /// No caller had the filter before. If the request fails, the filter is dropped.
        let isNew: Bool
        let continuation: UnsafeContinuation<Answer, Never>
    }

    let routes: SubscriptionRouter
    /// The protocol of the connections. Others carry no subscriptions.
    private let spoken: SubscriptionProtocol
    /// Called with each answer of a broker to a filter, with the QoS granted, or `nil` if it is refused.
    var onGrant: ((String, Payload.QoS?) -> Void)?
    /// Called once, when there will be no answer any more.
    var onEnd: (() -> Void)?
    private let runtime: any SupervisorRuntime
    /// Whether there is a next connection after this one.
    private let isSupervised: Bool
    private typealias Reconciler = SubscriptionReconciler<SubscriptionRequest>
    private var reconciler = Reconciler()
    /// The callers that wait, by filter. A filter without callers has no entry.
    private(set) var waiting: [FilterKey: [Waiter]] = [:]
    private var driver: ConnectionDriver?
    /// Where the messages of its connection come from.
    private var source = UnclaimedMessages.Source()
    /// The number of the packet that was written last.
    private var lastID: UInt64 = 0
    private var ending: TransportError?
    /// The single connection, if its client acknowledges messages after they have a listener.
    private var confirming: ConnectionDriver?
    /// Its messages that are not acknowledged.
    private var unconfirmed = UnprocessedMessages()
    /// The numbers of the filters that the app has had. One that is not used any more may be left.
    private var numbers: [FilterKey: UInt32] = [:]
    private var nextNumber = SubscriptionRequest.first
    /// How many of them there are before those that are not used any more are removed.
    private var mostNumbers = 1024
    /// The filters of the URL.
    private var configured: Set<FilterKey> = []
    /// The filters from which the client has unsubscribed only because an earlier process may have used them.
    private var guessed: Set<FilterKey> = []
    /// Reports a message that was dropped, because the app had no listener for it.
    private let report: (DiscardedMessage) -> Void
    /// The most filters in ``guessed``.
    private static let maximumGuessed = 4096

    /// Creates a subscriber without subscriptions.
    ///
    /// - Parameter limit: The maximum number of messages in the buffer of a sequence.
    init(
        _ spoken: SubscriptionProtocol,
        limit: Int,
        isSupervised: Bool,
        on runtime: any SupervisorRuntime,
        report: @escaping (DiscardedMessage) -> Void
    ) {
        self.spoken = spoken
        routes = .init(limit: limit, on: runtime, matching: spoken.matches)
        self.isSupervised = isSupervised
        self.runtime = runtime
        self.report = report
        routes.onDropped = { [unowned self] in dropped($0) }
        routes.onSettled = { [unowned self] in confirm($0) }
    }

    // MARK: Connections

    /// Handles a new connection. A connection without topics or on another loop carries no subscriptions.
    func linked(_ connection: any Connection, to broker: Endpoint?) {
        if let driver { unlinked(driver) }
        guard let connection = connection as? CoreConnection, let driver = connection.driver.here else { return }
        guard let client = driver.subscribingCore?.facts, client.spoken == spoken else { return }
        configured = Set(client.filters.map(FilterKey.init))
        driver.number(configured: client.filters.map(number(of:)))
        guard driver.phase == .open else { return }
        guard ending == nil else { return driver.releaseMessages() }
        self.driver = driver
        driver.onSignal = { [self] in take($0) }
        driver.holdMessages(alsoLater: isSupervised)
        routes.wait = client.unclaimedWait
        if !isSupervised, driver.confirmsReceipt {
            driver.confirmByHand()
            confirming = driver
        }
        source = UnclaimedMessages.Source(broker: broker, session: client.brokerSession)
        routes.linked(to: source, isPresent: client.hasSession)
        reconciler.linked(to: broker, as: client.name, session: client.brokerSession?.number)
        let confined = RuntimeBound(self, to: runtime)
        Task(executorPreference: runtime.taskExecutor) {
            _ = await connection.closed()
            confined.value.unlinked(connection.driver.value)
        }
        ask()
    }

    private func unlinked(_ driver: ConnectionDriver) {
        guard self.driver === driver else { return }
        self.driver = nil
        driver.onSignal = nil
        if isSupervised { routes.unlinked() }
        for outcome in reconciler.unlinked(byPeer: driver.reason?.isByPeer ?? false) {
            onGrant?(outcome.filter, nil)
            let error = TransportError.closed(after: outcome.filter)
            if outcome.isOver { routes.remove(outcome.filter, error) }
            settle(outcome.filter, outcome.through, .failure(error))
        }
        // The next connection unsubscribes from filters that were given up. Without a next connection, the end itself
        // is reported.
        if isSupervised { for key in waiting.keys { giveUp(key.text) } }
    }

    // MARK: Requests

    /// Requests a filter, or its end if there is no QoS. Resumes `continuation` with the broker's answer.
    func request(
        _ filter: String,
        _ qos: Payload.QoS?,
        isNew: Bool,
        _ id: UInt64,
        _ continuation: UnsafeContinuation<Answer, Never>
    ) {
        let number: UInt64
        if let qos {
            if isNew { routes.ask(filter) }
            number = reconciler.want(SubscriptionRequest(filter, qos: qos, number: self.number(of: filter)))
        } else {
            number = reconciler.drop(filter)
        }
        let waiter = Waiter(id: id, number: number, isSubscribing: qos != nil, isNew: isNew, continuation: continuation)
        waiting[FilterKey(filter), default: []].append(waiter)
        if let ending { return settle(filter, .max, .failure(ending), .failure(ending)) }
        ask()
        if isSupervised, driver == nil, !waiter.isSubscribing { giveUp(filter) }
    }

    /// The number of a filter, which stays the same as long as the app or the URL of the connection has the filter.
    /// Messages of an earlier connection may still wait for the app.
    private func number(of filter: String) -> UInt32 {
        let key = FilterKey(filter)
        if let number = numbers[key] { return number }
        if numbers.count >= mostNumbers {
            let unused = numbers.filter { key, _ in
                !reconciler.wants(key.text) && !routes.has(key.text) && !configured.contains(key)
            }
            for (key, number) in unused {
                numbers[key] = nil
                routes.forget(number)
            }
            mostNumbers = max(1024, numbers.count * 2)
        }
        // When the numbers begin again, some of them still belong to a filter. There are more numbers than filters.
        while routes.isUsed(nextNumber) { advance() }
        let number = nextNumber
        advance()
        numbers[key] = number
        routes.name(filter, number)
        return number
    }

    private func advance() {
        nextNumber = nextNumber >= Payload.largestSubscription ? SubscriptionRequest.first : nextNumber + 1
    }

    func cancel(_ id: UInt64, for filter: String) {
        let key = FilterKey(filter)
        var others = waiting[key] ?? []
        guard let index = others.firstIndex(where: { $0.id == id }) else { return }
        let waiter = others.remove(at: index)
        waiting[key] = others.isEmpty ? nil : others
        if !waiter.isSubscribing {
            if !reconciler.wants(filter) { routes.remove(filter) }
        } else if waiter.isNew, reconciler.isNewest(waiter.number, of: filter) {
            _ = reconciler.drop(filter, always: false)
            routes.remove(filter)
            ask()
        }
        waiter.continuation.resume(returning: .failure(.cancelled(.open)))
    }

    /// Ends all requests, because the last connection has ended.
    func end(_ error: TransportError) {
        guard ending == nil else { return }
        ending = error
        driver?.releaseMessages()
        driver = nil
        for key in waiting.keys { settle(key.text, .max, .failure(error), .failure(error)) }
        onEnd?()
    }

    // MARK: Packets and answers

    private func ask() {
        while let driver, let packet = reconciler.next() {
            lastID += 1
            do throws(TransportError) {
                var answer: SubscriptionSignal?
                try driver.withSubscribingCore { (core, context) throws(TransportError) in
                    switch packet {
                    case .subscribe(let requests): answer = try core.subscribe(requests, id: lastID, &context)
                    case .unsubscribe(let filters): answer = try core.unsubscribe(filters, id: lastID, &context)
                    }
                }
                if let answer { _ = isAnswered(answer) }
            } catch {
                guard driver.phase == .open else { return unlinked(driver) }
                answered([], error)
            }
        }
        driver?.isAwaitingAnswer = reconciler.isAwaitingAnswer
        // All subscriptions are written, so messages may follow them.
        if !reconciler.hasMore { driver?.releaseMessages() }
        driver?.readForAcknowledgement()
    }

    // MARK: Messages

    /// A supervisor has received a message. Returns whether it waits here for a filter, unacknowledged. Otherwise the
    /// listeners of all its messages get it, of which the client is one.
    func claims(_ message: ReceivedMessage, _ audience: MessageAudience) -> Bool {
        // The app gets each of its deliveries.
        guard case .messages(let listeners) = audience else { return false }
        routes.appGetsAll = listeners > 1
        let payload = message.payload
        guard listeners <= 1, !routes.isClaimed(payload), let driver, driver.confirmsReceipt,
            payload.qos != .atMostOnce
        else { return false }
        routes.hold(payload, .receipt(message, from: source))
        return true
    }

    /// The single connection has received a message. Returns whether a listener gets it now. Otherwise it waits here
    /// for a filter, unacknowledged.
    func takes(_ payload: Payload) -> Bool {
        let isClaimed = routes.isClaimed(payload)
        guard let confirming else {
            if !isClaimed { routes.hold(payload, .made) }
            return isClaimed
        }
        if isClaimed, unconfirmed.count == 0 {
            confirming.confirm(1)
            return true
        }
        let key = unconfirmed.add(at: runtime.clock)
        if isClaimed { confirm(key) } else { routes.hold(payload, .key(key)) }
        return isClaimed
    }

    /// Acknowledges messages in their order (MQTT-4.6.0-2).
    private func confirm(_ key: UInt64) {
        let released = unconfirmed.settle(key)
        if released > 0 { confirming?.confirm(released) }
    }

    /// Reports a message that no filter has matched in time. It stems from a subscription that the app has forgotten,
    /// which the broker keeps. MQTT 3.1.1 does not tell the filter, so the client unsubscribes from the filters that it
    /// can be, without those that the app or the URL has. That is harmless if there is no such subscription, and done
    /// once for each filter.
    private func dropped(_ payload: Payload) {
        report(DiscardedMessage(topic: payload.topic, size: payload.bytes.count))
        guard let topic = payload.topic, let driver, guessed.count < Self.maximumGuessed,
            driver.subscribingCore?.facts.hasSession == true
        else { return }
        let filters = MQTTTopic.filters(matching: topic, atMost: Reconciler.maximumFilters)
            .filter { filter in
                let key = FilterKey(filter)
                return !reconciler.wants(filter) && !configured.contains(key) && guessed.insert(key).inserted
            }
        guard !filters.isEmpty else { return }
        // The answer means nothing, and without a connection the next message of the topic does not come either.
        try? driver.withSubscribingCore { (core, context) throws(TransportError) in
            _ = try core.unsubscribe(filters, id: 0, &context)
        }
    }

    /// Returns the messages that wait for a filter, and claims no more.
    func takeWaiting() -> [UnclaimedMessages.Message] {
        routes.takeWaiting()
    }

    private func take(_ signal: any CoreSignal) {
        if let answer = signal.subscription, isAnswered(answer) { ask() }
    }

    /// Handles an answer. Returns whether it was that to the last packet.
    private func isAnswered(_ answer: SubscriptionSignal) -> Bool {
        switch answer {
        case .subscribed(lastID, let granted): answered(granted)
        case .unsubscribed(lastID): answered([])
        case .refused(lastID, let filter, let error):
            if let outcome = reconciler.refused(filter) { refused(outcome, error) }
        default: return false
        }
        return true
    }

    private func refused(_ outcome: Reconciler.Outcome, _ error: TransportError) {
        onGrant?(outcome.filter, nil)
        if outcome.isOver { routes.remove(outcome.filter, error) }
        settle(outcome.filter, outcome.through, .failure(error))
    }

    private func answered(_ granted: [Payload.QoS?], _ failure: TransportError? = nil) {
        for outcome in reconciler.answered(granted, wasWritten: failure == nil) {
            let filter = outcome.filter
            switch outcome.verdict {
            case .granted(let qos):
                onGrant?(filter, qos)
                settle(filter, outcome.through, .success(()))
            case .refused:
                guard let failure else {
                    refused(outcome, .refused(filter))
                    continue
                }
                if outcome.isOver { routes.remove(filter, failure) }
                settle(filter, outcome.through, .failure(failure))
            case .unsubscribed:
                if outcome.isOver { routes.remove(filter) }
                settle(filter, outcome.through, .failure(.unsubscribed(filter)), failure.map { .failure($0) })
            }
        }
    }

    /// Ends a filter that is not wanted any more, because there is no connection over which to unsubscribe.
    private func giveUp(_ filter: String) {
        guard !reconciler.wants(filter) else { return }
        routes.remove(filter)
        settle(filter, .max, .failure(.unsubscribed(filter)))
    }

    /// Resumes the callers that wait for a request up to number `through`.
    private func settle(_ filter: String, _ through: UInt64, _ subscribed: Answer, _ unsubscribed: Answer? = nil) {
        routes.answered(filter)
        let key = FilterKey(filter)
        guard let waiters = waiting.removeValue(forKey: key) else { return }
        let later = waiters.filter { $0.number > through }
        if !later.isEmpty { waiting[key] = later }
        for waiter in waiters where waiter.number <= through {
            waiter.continuation.resume(returning: waiter.isSubscribing ? subscribed : unsubscribed ?? .success(()))
        }
    }
}

extension SubscriptionRequest: TopicSubscription {
    typealias Grant = Payload.QoS
}

extension SubscriptionProtocol {
    /// Whether a message that names no subscription goes to a filter. Messages of STOMP all name theirs.
    var matches: @Sendable (_ filter: String, _ topic: String) -> Bool {
        switch self {
        case .mqtt: { MQTTTopic.matches(filter: $0, topic: $1) }
        case .stomp: { _, _ in false }
        }
    }
}

extension TransportError {
    fileprivate static func refused(_ filter: String) -> TransportError {
        TransportError(.forbidden, .open, MQTTTopic.refusal(of: filter), detail: 0x80)
    }

    fileprivate static func closed(after filter: String) -> TransportError {
        let seen = "the broker closed two connections in a row after SUBSCRIBE to '\(filter)' and before its answer"
        return TransportError(.forbidden, .open, "\(seen), so it may forbid this filter; check its access rules")
    }

    fileprivate static func unsubscribed(_ filter: String) -> TransportError {
        TransportError(.cancelled, .open, "'\(filter)' was unsubscribed before the broker answered")
    }
}

extension CloseReason {
    /// Whether the peer has ended the connection, with or without a reason, and not this side or a timeout.
    fileprivate var isByPeer: Bool { initiator == .peer || error?.code == .connectionReset }
}
