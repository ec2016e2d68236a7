/// Receives a supervisor's events for logs and metrics. Called in order on the thread of the supervisor's loop. It must
/// not block.
public protocol SupervisorObserver: Sendable {
    /// Receives one event.
    func note(_ note: SupervisorEvent, at time: Instant)
}

/// Called before each attempt. Returns the endpoint to use now, with fresh credentials in it. `isRefresh` means that
/// the last credentials were refused. A thrown error fails the attempt. A ``TransportError`` determines whether another
/// attempt makes sense; any other error counts as temporary.
public typealias EndpointPreparation = @Sendable (Endpoint, _ isRefresh: Bool) async throws -> Endpoint

/// Makes the transport for connections to an endpoint.
package typealias TransportFactory = @Sendable (Endpoint) throws(TransportError) -> any Transport

/// Keeps the messages of an outbox across processes. Called in order on the thread of the supervisor's loop. It must
/// not block for long.
public protocol OutboxStore: Sendable {
    /// Returns the messages that an earlier process left, oldest first. These messages are sent before all others,
    /// under their identifiers. Messages out of order are ignored.
    func load() -> [(id: MessageID, payload: Payload)]
    /// Stores a message that has a place in the outbox.
    func insert(_ id: MessageID, _ payload: Payload)
    /// Removes a message that has ended. Submitted messages without a waiting caller that are left when the supervisor
    /// ends are not removed, but kept for the next supervisor.
    func remove(_ id: MessageID)
}

/// Calls a store in order on its runtime's own thread.
final class CalledOutStore {
    private let store: any OutboxStore
    private let runtime: any SupervisorRuntime

    init(_ store: any OutboxStore, _ runtime: any SupervisorRuntime) {
        (self.store, self.runtime) = (store, runtime)
    }

    func load() -> [(id: MessageID, payload: Payload)] { store.load() }

    func insert(_ id: MessageID, _ payload: Payload) {
        runtime.callOut { [store] in store.insert(id, payload) }
    }

    func remove(_ id: MessageID) {
        runtime.callOut { [store] in store.remove(id) }
    }
}

/// A message that was not delivered, returned so that the app can show, edit and resend it.
public struct Undelivered: Sendable, Hashable {
    /// The identifier of the message.
    public var id: MessageID
    /// The message.
    public var payload: Payload
    /// Why it was not delivered, or why that is not known.
    public var outcome: SendOutcome
}
