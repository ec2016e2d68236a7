import SocketIO
import TransportAPI

/// Passes events about untrusted peers to the owner of a server, at most one of each kind per second
/// (``EventRateLimiter``). Lives on its loop.
final class LimitedEvents {
    private let queue: AcceptQueue
    private let loop: EventLoop
    private var limiter = EventRateLimiter()
    /// The timer for the events that wait.
    private var timer: UInt64?

    /// Creates a limit without events.
    init(to queue: AcceptQueue, on loop: EventLoop) {
        (self.queue, self.loop) = (queue, loop)
    }

    /// Reports an occurrence, now or together with later ones. `event` is evaluated at most twice a second for each kind.
    func note(_ kind: EventRateLimiter.Kind, _ event: @autoclosure () -> EventRateLimiter.Event) {
        guard queue.isObserved else { return }
        if let event = limiter.count(kind, event(), now: loop.now) { pass(event) } else { passLater() }
    }

    private func passLater() {
        guard timer == nil, let deadline = limiter.deadline else { return }
        timer = loop.schedule(at: deadline) { [self] in
            timer = nil
            for event in limiter.due(loop.now) { pass(event) }
            passLater()
        }
    }

    private func pass(_ event: EventRateLimiter.Event) {
        queue.note(event.client, event.reason, wasOpen: event.wasOpen, count: event.count)
    }
}
