import SocketIO
import TransportAPI

/// Which messages of one link go to whom, and who waits for an answer to SUBSCRIBE or UNSUBSCRIBE. Lives on the link's loop.
final class MQTTRoutes {
    typealias Answer = Result<[MQTTQoS?], TransportError>

    /// Those who want the messages of one filter.
    private struct Route {
        let broadcast: RuntimeConfined<Broadcast<Payload>>
        var callbacks: [@Sendable (Payload) -> Void] = []
        /// How many messages may still come before the link waits for a listener, while SUBSCRIBE is not answered: nobody has
        /// the sequence yet, and the answer may be behind what is retained.
        var credit = 0

        var hasRoom: Bool { credit > 0 || broadcast.value.hasRoom }
    }

    /// How many messages of a filter may come before the answer to its SUBSCRIBE.
    private static let early = 4096

    private let loop: EventLoop
    private let limit: Int
    private var routes: [MQTTFilterKey: Route] = [:]
    private var waiting: [UInt64: UnsafeContinuation<Answer, Never>] = [:]
    private var lastID: UInt64 = 0
    private var room: UnsafeContinuation<Void, Never>?
    /// Messages that no filter matched.
    private(set) var unclaimed: UInt64 = 0
    private var isFinished = false
    /// Why the link has ended.
    private var ending: TransportError?

    init(limit: Int, on loop: EventLoop) {
        self.limit = limit
        self.loop = loop
    }

    // MARK: Filters

    func has(_ filter: String) -> Bool { routes[MQTTFilterKey(filter)] != nil }

    /// Somebody listens to a filter from now on.
    func listen(_ filter: String) -> Subscription<Payload> {
        Subscription(route(filter).broadcast)
    }

    func call(_ filter: String, _ callback: @escaping @Sendable (Payload) -> Void) {
        var route = route(filter)
        route.callbacks.append(callback)
        routes[MQTTFilterKey(filter)] = route
    }

    /// A filter is being subscribed to for the first time; ``answered(_:)`` tells when that is over.
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
        let broadcast = Broadcast<Payload>(limit: limit, .pause, keepsBacklog: false)
        if isFinished { broadcast.finish() }
        let route = Route(broadcast: RuntimeConfined(broadcast, to: loop))
        routes[key] = route
        return route
    }

    /// Ends what listens to a filter, after what it holds.
    func remove(_ filter: String) {
        routes.removeValue(forKey: MQTTFilterKey(filter))?.broadcast.value.finish()
        makeRoom()
    }

    // MARK: Messages

    /// Gives a message to all whose filters match; waits while one of them has no room for another.
    func deliver(_ payload: Payload, _ confined: LoopConfined<MQTTRoutes>) async {
        let topic = payload.topic ?? ""
        let matching = routes.keys.filter { MQTTTopic.matches(filter: $0.text, topic: topic) }
        if matching.isEmpty { unclaimed += 1 }
        for key in matching {
            guard let route = routes[key] else { continue }
            for callback in route.callbacks { callback(payload) }
            route.broadcast.value.send(payload)
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

    // MARK: Answers

    func newID() -> UInt64 {
        lastID += 1
        return lastID
    }

    func wait(_ id: UInt64, _ continuation: UnsafeContinuation<Answer, Never>) {
        if let ending { return continuation.resume(returning: .failure(ending)) }
        waiting[id] = continuation
    }

    func take(_ signal: any CoreSignal) {
        switch signal as? MQTTSignal {
        case .subscribeAnswered(let id, let granted):
            waiting.removeValue(forKey: id)?.resume(returning: .success(granted))
        case .unsubscribeAnswered(let id): waiting.removeValue(forKey: id)?.resume(returning: .success([]))
        default: break
        }
    }

    func cancel(_ id: UInt64) {
        waiting.removeValue(forKey: id)?.resume(returning: .failure(.cancelled(.open)))
    }

    /// The last message was given out: all sequences end behind what they hold.
    func finish() {
        isFinished = true
        for route in routes.values { route.broadcast.value.finish() }
    }

    /// The link has ended: whoever waits is told.
    func end(_ error: TransportError) {
        ending = error
        for continuation in waiting.values { continuation.resume(returning: .failure(error)) }
        waiting = [:]
    }
}

/// A filter as a key: by its bytes, because two that Swift holds for equal may differ on the wire.
private struct MQTTFilterKey: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: MQTTFilterKey, right: MQTTFilterKey) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }
}
