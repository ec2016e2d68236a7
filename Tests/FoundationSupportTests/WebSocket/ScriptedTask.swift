import SocketIO
import TransportAPI
import Transports

@testable import FoundationSupport

/// A task of the system that does only what a test says, also what it should not do: calls that come late or twice.
final class ScriptedTask: WebSocketTask {
    private struct State {
        var events: (@Sendable (WebSocketTaskEvent) -> Void)?
        var receivers: [@Sendable (Result<WebSocketTaskMessage, WebSocketTaskFailure>) -> Void] = []
        var senders: [@Sendable (Bool) -> Void] = []
        var pings: [@Sendable (Bool) -> Void] = []
        var sent: [WebSocketTaskMessage] = []
        var calls: [String] = []
        var waiter: (call: String, continuation: CheckedContinuation<Void, Never>)?
    }

    private let state = Locked(State())
    /// Whether a send completes at once.
    private let completesSends: Bool

    init(completesSends: Bool = true) {
        self.completesSends = completesSends
    }

    /// All transports, where this is the only task.
    var registry: TransportRegistry {
        var registry = TransportRegistry.standard
        registry.registerWebSocket(.system) { [self] in { (_) throws(TransportError) in self } }
        return registry
    }

    /// The names of the calls so far, except for sends and receives.
    var calls: [String] { state.withLock { $0.calls } }
    var sent: [WebSocketTaskMessage] { state.withLock { $0.sent } }
    var waitingReceives: Int { state.withLock { $0.receivers.count } }

    private func note(_ call: String) {
        let waiter = state.withLock { state in
            state.calls.append(call)
            guard state.waiter?.call == call else { return nil as CheckedContinuation<Void, Never>? }
            return state.waiter.take()?.continuation
        }
        waiter?.resume()
    }

    /// Waits until a call was made. Only one caller can wait.
    func waitForCall(_ call: String) async {
        await withCheckedContinuation { continuation in
            let wasMade = state.withLock { state in
                guard !state.calls.contains(call) else { return true }
                state.waiter = (call, continuation)
                return false
            }
            if wasMade { continuation.resume() }
        }
    }

    // MARK: The test

    func report(_ event: WebSocketTaskEvent) { state.withLock { $0.events }?(event) }

    /// Gives a message to the oldest receive. Returns whether there was one.
    @discardableResult
    func deliver(_ result: Result<WebSocketTaskMessage, WebSocketTaskFailure>) -> Bool {
        let receiver = state.withLock { $0.receivers.isEmpty ? nil : $0.receivers.removeFirst() }
        receiver?(result)
        return receiver != nil
    }

    /// Answers all pings so far, each twice.
    func answerPings() {
        for ping in state.withLock({ $0.pings }) {
            ping(true)
            ping(true)
        }
    }

    /// Completes all sends so far, each twice.
    func completeSends() {
        for sender in state.withLock({ $0.senders }) {
            sender(true)
            sender(true)
        }
    }

    // MARK: The task

    func resume(_ events: @escaping @Sendable (WebSocketTaskEvent) -> Void) {
        state.withLock { $0.events = events }
        note("resume")
    }

    func send(_ message: WebSocketTaskMessage, _ completion: @escaping @Sendable (Bool) -> Void) {
        state.withLock { state in
            state.sent.append(message)
            state.senders.append(completion)
        }
        note("send")
        if completesSends { completion(true) }
    }

    func receive(
        _ completion: @escaping @Sendable (Result<WebSocketTaskMessage, WebSocketTaskFailure>) -> Void
    ) {
        state.withLock { $0.receivers.append(completion) }
        note("receive")
    }

    func ping(_ completion: @escaping @Sendable (Bool) -> Void) {
        state.withLock { $0.pings.append(completion) }
        note("ping")
    }

    func close(code: UInt16, text: String) { note("close \(code) \(text)") }

    func cancel() { note("cancel") }
}
