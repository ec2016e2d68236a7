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
    private static let early = 4096

    private let runtime: any SupervisorRuntime
    private let limit: Int
    private var routes: [MQTTFilterKey: Route] = [:]
    private var room: UnsafeContinuation<Void, Never>?
    /// Messages that no filter matched.
    private(set) var unclaimed: UInt64 = 0
    private var isFinished = false

    init(limit: Int, on runtime: any SupervisorRuntime) {
        self.limit = limit
        self.runtime = runtime
    }

    // MARK: Filters

    func has(_ filter: String) -> Bool { routes[MQTTFilterKey(filter)] != nil }

    /// Adds a listener of a filter.
    func listen(_ filter: String) -> Subscription<Element> {
        Subscription(route(filter).broadcast)
    }

    func call(_ filter: String, _ callback: @escaping @Sendable (Payload) -> Void) {
        var route = route(filter)
        route.callbacks.append(callback)
        routes[MQTTFilterKey(filter)] = route
    }

    /// Starts the first subscription to a filter. ``answered(_:)`` ends it.
    func ask(_ filter: String) {
        routes[MQTTFilterKey(filter)]?.credit = Self.early
        makeRoom()
    }

    func answered(_ filter: String) {
        routes[MQTTFilterKey(filter)]?.credit = 0
    }

    private func route(_ filter: String) -> Route {
        let key = MQTTFilterKey(filter)
        if let route = routes[key] { return route }
        let broadcast = MulticastBuffer<Element>(limit: limit, .pause, keepsBacklog: false)
        if isFinished { broadcast.finish() }
        let route = Route(broadcast: RuntimeBound(broadcast, to: runtime))
        routes[key] = route
        return route
    }

    /// Ends the listeners of a filter after their buffered messages, with `error` if there is one.
    func remove(_ filter: String, _ error: TransportError? = nil) {
        if let route = routes.removeValue(forKey: MQTTFilterKey(filter)) { Self.finish(route, error) }
        makeRoom()
    }

    // MARK: Messages

    /// Passes a message to all listeners whose filters match. Waits while one of them has no room for another.
    func deliver(_ payload: Payload, _ confined: RuntimeBound<SubscriptionRouter>) async {
        let topic = payload.topic ?? ""
        let matching = routes.keys.filter { MQTTTopic.matches(filter: $0.text, topic: topic) }
        if matching.isEmpty { unclaimed += 1 }
        for key in matching {
            guard let route = routes[key] else { continue }
            for callback in route.callbacks { callback(payload) }
            route.broadcast.value.send(.success(payload))
            if route.credit > 0 { routes[key]?.credit -= 1 }
        }
        guard !hasRoom else { return }
        for route in routes.values { route.broadcast.value.onRoom = { [unowned self] in makeRoom() } }
        await withUnsafeContinuation { confined.value.room = $0 }
    }

    private var hasRoom: Bool { routes.values.allSatisfy(\.hasRoom) }

    private func makeRoom() {
        guard hasRoom, let room = room.take() else { return }
        for route in routes.values { route.broadcast.value.onRoom = nil }
        room.resume()
    }

    /// Ends all sequences after their buffered messages, with `error` if there is one.
    func finish(_ error: TransportError? = nil) {
        isFinished = true
        for route in routes.values { Self.finish(route, error) }
        room.take()?.resume()
    }

    private static func finish(_ route: Route, _ error: TransportError?) {
        if let error { route.broadcast.value.send(.failure(error)) }
        route.broadcast.value.finish()
    }
}
