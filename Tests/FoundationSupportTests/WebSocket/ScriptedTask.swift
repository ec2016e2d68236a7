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
        func count(of call: String) -> Int { calls.count { $0 == call } }
        var waiter: (call: String, count: Int, continuation: CheckedContinuation<Void, Never>)?
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

    /// The names of the calls so far.
    var calls: [String] { state.withLock { $0.calls } }
    var sent: [WebSocketTaskMessage] { state.withLock { $0.sent } }
    var waitingReceives: Int { state.withLock { $0.receivers.count } }

    private func note(_ call: String) {
        let waiter = state.withLock { state in
            state.calls.append(call)
            guard let waiter = state.waiter, state.count(of: waiter.call) >= waiter.count else {
                return nil as CheckedContinuation<Void, Never>?
            }
            return state.waiter.take()?.continuation
        }
        waiter?.resume()
    }

    /// Waits until a call was made so many times. Only one caller can wait.
    func waitForCall(_ call: String, times count: Int = 1) async {
        await withCheckedContinuation { continuation in
            let wasMade = state.withLock { state in
                guard state.count(of: call) < count else { return true }
                state.waiter = (call, count, continuation)
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
        let senders = state.withLock { state in
            defer { state.senders = [] }
            return state.senders
        }
        for sender in senders {
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
