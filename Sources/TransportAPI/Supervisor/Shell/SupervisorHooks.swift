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

/// Takes what it has asked a connection for (``SameLoopConnection/receiveNow(orTell:)``). Lives on the connection's loop.
package protocol ConnectionReceiver: AnyObject {
    /// The message or the end has come. The connection is in the middle of its work, and takes what is asked of it all
    /// the same.
    func receive(_ arrival: Result<Payload?, TransportError>)
}

/// A connection whose owner lives on the same loop, so that nothing need wait.
package protocol SameLoopConnection: Connection {
    /// Whether the caller runs on the connection's loop.
    var isHere: Bool { get }
    /// Sends at once; `nil` if that would have to wait, in which case nothing was sent. To be called on the connection's loop.
    func sendNow(_ payload: Payload) -> SendOutcome?
    /// The next message or the end, as ``Connection/receive()`` gives it. If there is neither yet it gives `nil`, and
    /// calls `receiver` once when there is. Who asks is done with the message before. To be called on the connection's
    /// loop.
    func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>?
    /// Says goodbye without waiting for an answer, and ends the connection. To be called on the connection's loop.
    func abandon(_ reason: CloseReason)
    /// Whoever reads the connection is done with the last message that it gave, and may not ask for the next one soon.
    /// To be called on the connection's loop.
    func confirmNow()
    /// From now on messages are acknowledged to the peer by ``confirm(_:)``, and not when the next one is asked for.
    /// May be called from anywhere.
    func confirmByHand()
    /// Acknowledges the oldest messages that were given out and not acknowledged, so many. May be called from anywhere.
    func confirm(_ count: Int)
    /// The machine's addresses may be others by now: a connection that can goes on from another one. To be called on
    /// the connection's loop.
    func networkChanged()
    /// Calls `action` for each message that the connection passes over because of its size, also for those before. To
    /// be called on the connection's loop, which calls it too.
    func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void)
    /// How many bytes have been received, but for what came again. To be called on the connection's loop.
    var bytesReceivedNow: UInt64 { get }
}

extension SameLoopConnection {
    /// Does nothing.
    package func confirmNow() {}
    /// Does nothing.
    package func confirmByHand() {}
    /// Does nothing.
    package func confirm(_: Int) {}
    /// Does nothing.
    package func networkChanged() {}
    /// Does nothing: the connection passes over none.
    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {}
}
