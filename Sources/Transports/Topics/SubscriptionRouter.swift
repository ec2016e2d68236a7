import Primitives
import Protocols
import TransportAPI

/// Passes each message to the listeners whose filters match. Lives on the loop of the connections that bring the
/// messages.
final class SubscriptionRouter {
    typealias Element = Result<Payload, TransportError>

    /// The listeners of one filter.
    private struct Route {
        let broadcast: RuntimeBound<MulticastBuffer<Element>>
        var callbacks: [@Sendable (Payload) -> Void] = []
        /// The number of messages that may arrive before the connection waits for a listener, while SUBSCRIBE is not
        /// answered. The caller does not have the sequence yet, and retained messages may arrive before the answer.
        var credit = 0

        var hasRoom: Bool { credit > 0 || broadcast.value.hasRoom }
    }

    /// The number of messages of a filter that may arrive before the answer to its SUBSCRIBE.
    private static var early: Int { 4096 }

    /// The most bytes of messages that wait for a filter over a single connection. One message may exceed it.
    private static var maximumWaitingBytes: Int { 4 << 20 }

    private let runtime: any SupervisorRuntime
    private let limit: Int
    /// Whether a message of a topic goes to a filter, if the message names no subscription.
    private let matching: @Sendable (_ filter: String, _ topic: String) -> Bool
    /// The filters by the numbers of their subscriptions, for messages that name theirs.
    private var filters: [UInt32: FilterKey] = [:]
    private var routes: [FilterKey: Route] = [:]
    private var room: UnsafeContinuation<Void, Never>?
    /// The messages that wait for a filter.
    private var waiting = UnclaimedMessages()
    /// Whether no message waits for a filter any more, because the app has all its filters, or the wait is over.
    private(set) var isComplete = false
    /// How long messages wait for a filter, from the first of them on a connection.
    var wait = Duration.seconds(30)
    private var timer: UInt64?
    /// Whether the app also listens to all messages of the supervisor. Then none of them is unclaimed.
    var appGetsAll = false
    /// Messages that no filter has matched, if the app listens to them.
    let unclaimed: MulticastBuffer<Payload>
    /// How many messages no filter has matched.
    private(set) var unclaimedCount: UInt64 = 0
    /// Called with each of these messages to which the app does not listen.
    var onDropped: ((Payload) -> Void)?
    /// Acknowledges a message of a single connection.
    var onSettled: ((UInt64) -> Void)?
    private var isFinished = false

    init(
        limit: Int,
        on runtime: any SupervisorRuntime,
        matching: @escaping @Sendable (_ filter: String, _ topic: String) -> Bool
    ) {
        self.limit = limit
        self.matching = matching
        self.runtime = runtime
        unclaimed = MulticastBuffer(limit: limit, .pause, keepsBacklog: false)
    }

    // MARK: Filters

    /// Notes the filter of a subscription's number.
    func name(_ filter: String, _ number: UInt32) { filters[number] = FilterKey(filter) }

    /// Forgets a number. Messages that name it go nowhere.
    func forget(_ number: UInt32) { filters[number] = nil }

    /// Whether a filter has this number.
    func isUsed(_ number: UInt32) -> Bool { filters[number] != nil }

    func has(_ filter: String) -> Bool { routes[FilterKey(filter)] != nil }

    /// Adds a listener of a filter, which first gets the messages that wait for the filter.
    func listen(_ filter: String) -> Subscription<Element> {
        let route = route(filter)
        let listener = Subscription(route.broadcast)
        claim(filter) { route.broadcast.value.send(.success($0)) }
        if isFinished { route.broadcast.value.finish() }
        return listener
    }

    func call(_ filter: String, _ callback: @escaping @Sendable (Payload) -> Void) {
        var route = route(filter)
        route.callbacks.append(callback)
        routes[FilterKey(filter)] = route
        claim(filter, callback)
    }

    /// Starts the first subscription to a filter. ``answered(_:)`` ends it.
    func ask(_ filter: String) {
        routes[FilterKey(filter)]?.credit = Self.early
        makeRoom()
    }

    func answered(_ filter: String) {
        routes[FilterKey(filter)]?.credit = 0
    }

    private func route(_ filter: String) -> Route {
        let key = FilterKey(filter)
        if let route = routes[key] { return route }
        let broadcast = MulticastBuffer<Element>(limit: limit, .pause, keepsBacklog: false)
        // Messages that have waited for this filter may fill it while another one is full.
        if room != nil { broadcast.onRoom = { [unowned self] in makeRoom() } }
        let route = Route(broadcast: RuntimeBound(broadcast, to: runtime))
        routes[key] = route
        return route
    }

    /// Ends the listeners of a filter after their buffered messages, with `error` if there is one.
    func remove(_ filter: String, _ error: TransportError? = nil) {
        if let route = routes.removeValue(forKey: FilterKey(filter)) { Self.finish(route, error) }
        makeRoom()
    }

    // MARK: Messages

    /// Passes a message to all listeners whose filters match. Waits while one of them has no room for another.
    func deliver(_ payload: Payload, _ confined: RuntimeBound<SubscriptionRouter>) async {
        let matching = matching(payload)
        if matching.isEmpty { unmatched(payload) }
        for key in matching {
            guard let route = routes[key] else { continue }
            for callback in route.callbacks { callback(payload) }
            route.broadcast.value.send(.success(payload))
            if route.credit > 0 { routes[key]?.credit -= 1 }
        }
        await waitForRoom(confined)
    }

    /// Waits while a listener has no room for another message, or too many messages wait for a filter.
    func waitForRoom(_ confined: RuntimeBound<SubscriptionRouter>) async {
        guard !hasRoom else { return }
        for route in routes.values { route.broadcast.value.onRoom = { [unowned self] in makeRoom() } }
        unclaimed.onRoom = { [unowned self] in makeRoom() }
        await withUnsafeContinuation { confined.value.room = $0 }
    }

    private func matching(_ payload: Payload) -> [FilterKey] {
        guard payload.subscription == 0 else {
            guard let key = filters[payload.subscription], routes[key] != nil else { return [] }
            return [key]
        }
        let topic = payload.topic ?? ""
        return routes.keys.filter { matching($0.text, topic) }
    }

    /// Whether a message goes to a filter.
    private func isFor(_ filter: String, _ payload: Payload) -> Bool {
        guard payload.subscription == 0 else { return filters[payload.subscription] == FilterKey(filter) }
        return matching(filter, payload.topic ?? "")
    }

    // MARK: Messages that match no filter

    /// Whether a message waits for no other filter than those that there are.
    func isClaimed(_ payload: Payload) -> Bool {
        isComplete || payload.topic == nil || !matching(payload).isEmpty
    }

    /// Keeps a message until a filter matches it, or the wait is over.
    func hold(_ payload: Payload, _ acknowledgement: UnclaimedMessages.Acknowledgement) {
        waiting.append(payload, acknowledgement)
        startTimer()
    }

    private func startTimer() {
        guard timer == nil else { return }
        timer = runtime.schedule(at: runtime.clock.advanced(by: wait)) { [weak self] in
            self?.timer = nil
            self?.complete()
        }
    }

    private func unmatched(_ payload: Payload) {
        if appGetsAll {
            unclaimedCount += 1
        } else if isClaimed(payload) {
            giveUp(payload)
        } else {
            hold(payload, .made)
        }
    }

    /// The app has no listener for a message, and has had the time to make one.
    private func giveUp(_ payload: Payload) {
        unclaimedCount += 1
        if unclaimed.hasListeners { unclaimed.send(payload) } else { onDropped?(payload) }
    }

    /// The app has all its filters, or has had the time to make them. A message whose connection has ended is not
    /// passed on, because the next connection brings it again.
    func complete() {
        isComplete = true
        cancelTimer()
        for message in waiting.take(where: { _ in true }) where !message.mayComeAgain {
            giveUp(message.payload)
            acknowledge(message)
        }
        makeRoom()
    }

    /// Passes the messages that wait for a filter to its new listener. A message whose connection has ended stays, until
    /// the next connection shows whether it comes again.
    private func claim(_ filter: String, _ listener: (Payload) -> Void) {
        let claimed = waiting.take { message in
            isFor(filter, message.payload) && !message.mayComeAgain
        }
        for message in claimed {
            listener(message.payload)
            acknowledge(message)
        }
        if !claimed.isEmpty { makeRoom() }
    }

    private func acknowledge(_ message: UnclaimedMessages.Message) {
        switch message.acknowledgement {
        case .made: break
        case .receipt(let message, _): message.acknowledge()
        case .key(let key): onSettled?(key)
        }
    }

    /// A broker has accepted a connection. Messages that it does not send again are passed to the filters that have been
    /// made since.
    func linked(to source: UnclaimedMessages.Source, isPresent: Bool) {
        cancelTimer()
        waiting.linked(to: source, isPresent: isPresent)
        for (key, route) in routes {
            claim(key.text) { payload in
                for callback in route.callbacks { callback(payload) }
                route.broadcast.value.send(.success(payload))
            }
        }
        if isComplete { complete() } else if !waiting.isEmpty { startTimer() }
    }

    /// The connection of a supervisor has ended. The app cannot complete its subscriptions before the next one, which
    /// begins the wait again.
    func unlinked() {
        cancelTimer()
    }

    /// Returns the messages that wait, because the client gives them back.
    func takeWaiting() -> [UnclaimedMessages.Message] {
        cancelTimer()
        return waiting.take { _ in true }
    }

    private func cancelTimer() {
        if let timer { runtime.cancel(timer: timer) }
        timer = nil
    }

    // MARK: Room

    private var hasRoom: Bool {
        waiting.count < limit && waiting.bytes < Self.maximumWaitingBytes && unclaimed.hasRoom
            && routes.values.allSatisfy(\.hasRoom)
    }

    private func makeRoom() {
        guard hasRoom, let room = room.take() else { return }
        for route in routes.values { route.broadcast.value.onRoom = nil }
        unclaimed.onRoom = nil
        room.resume()
    }

    /// Ends all sequences after their buffered messages, with `error` if there is one.
    func finish(_ error: TransportError? = nil) {
        isFinished = true
        for route in routes.values { Self.finish(route, error) }
        unclaimed.finish()
        cancelTimer()
        // The next connection of the session brings these again.
        _ = waiting.take { if case .made = $0.acknowledgement { false } else { true } }
        room.take()?.resume()
    }

    private static func finish(_ route: Route, _ error: TransportError?) {
        if let error { route.broadcast.value.send(.failure(error)) }
        route.broadcast.value.finish()
    }
}
