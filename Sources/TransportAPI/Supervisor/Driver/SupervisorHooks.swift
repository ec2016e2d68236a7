/// Receives a supervisor's events for logs and metrics. Called on the thread of the supervisor's loop, in order: it
/// must not block.
public protocol SupervisorObserver: Sendable {
    /// Something has happened.
    func note(_ note: SupervisorEvent, at time: Instant)
}

/// Where a supervisor asks before each attempt: for the endpoint as it is to be used now, with fresh credentials in it.
/// `isRefresh` says that the last ones were refused. What it throws fails the attempt; a ``TransportError`` says by itself
/// whether another one makes sense, anything else counts as something that may pass.
public typealias EndpointPreparation = @Sendable (Endpoint, _ isRefresh: Bool) async throws -> Endpoint

/// Makes the recipe for connections to an endpoint.
public typealias TransportFactory = @Sendable (Endpoint) throws(TransportError) -> any Transport

/// Keeps the messages of an outbox beyond the life of the process. Called on the thread of the supervisor's loop, in
/// order; it must not block for long.
public protocol OutboxStore: Sendable {
    /// What was left of the last time, oldest first. These messages are sent before all others, under the identifiers that they
    /// had; those out of order are left out.
    func load() -> [(id: MessageID, payload: Payload)]
    /// A message has a place in the outbox.
    func insert(_ id: MessageID, _ payload: Payload)
    /// A message has ended. Of those that were submitted and not waited for, what is left when the supervisor ends is not
    /// removed: it is for the next one.
    func remove(_ id: MessageID)
}

/// A store that is called in order and on its runtime's own thread.
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

/// A message that was not delivered, given back so that it can be shown, edited and sent again.
public struct Undelivered: Sendable, Hashable {
    /// Which one.
    public var id: MessageID
    /// What it was.
    public var payload: Payload
    /// Why it was not delivered, or why that is not known.
    public var outcome: SendOutcome
}
