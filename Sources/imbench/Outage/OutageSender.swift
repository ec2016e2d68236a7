import SocketIO
import TransportAPI

/// Sends numbered messages at an even pace, whatever the connection does, and writes down how each ended.
final class OutageSender: Sendable {
    private struct State {
        var outcomes: [Int: SendOutcome?] = [:]
        var isStopped = false
    }

    private let supervisor: Supervisor
    private let pace: Duration
    private let loop: EventLoop
    private let state = Locked(State())

    init(_ supervisor: Supervisor, _ pace: Duration, on loop: EventLoop) {
        self.supervisor = supervisor
        self.pace = pace
        self.loop = loop
    }

    /// Sends until it is stopped.
    func run() async {
        var number = 0
        while !state.withLock({ $0.isStopped }) {
            let message = number
            state.withLock { $0.outcomes[message] = .some(nil) }
            Task(executorPreference: loop) { [supervisor, self] in
                let outcome = await supervisor.send(Payload(Array(String(message).utf8)))
                state.withLock { $0.outcomes[message] = outcome }
            }
            number += 1
            await loop.pause(pace)
        }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
    }

    /// Waits until every message has its outcome, or for as long as is given.
    func finish(within patience: Duration) async -> [Int: SendOutcome?] {
        let end = MonotonicClock.now() + patience.wholeNanoseconds
        while MonotonicClock.now() < end, !Interruption.isRequested {
            let outcomes = state.withLock { $0.outcomes }
            if !outcomes.values.contains(where: { $0 == nil }) { return outcomes }
            await loop.pause(.milliseconds(5))
        }
        return state.withLock { $0.outcomes }
    }
}

extension SendOutcome {
    /// The outcome's name in reports.
    var name: String {
        switch self {
        case .acknowledged: "acknowledged"
        case .written: "written"
        case .expired: "expired"
        case .rejected: "rejected"
        case .unknown: "unknown"
        }
    }
}
