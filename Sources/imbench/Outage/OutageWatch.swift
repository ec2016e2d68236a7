import SocketIO
import TransportAPI

/// Follows a supervisor: when it loses its connection, and when it has one again.
final class OutageWatch: SupervisorObserver {
    struct Times: Sendable {
        /// Since when a loss counts.
        var faultAt: Int64?
        var detectedAt: Int64?
        /// When it was open last.
        var openAt: Int64?
        var isOpen = false
        var end: CloseReason?
    }

    private let times = Locked(Times())

    var now: Times { times.withLock { $0 } }

    /// The fault happens now.
    func mark() {
        times.withLock {
            $0.faultAt = MonotonicClock.now()
            $0.detectedAt = nil
        }
    }

    func note(_ note: SupervisorEvent, at _: Instant) {
        let now = MonotonicClock.now()
        times.withLock { times in
            switch note {
            case .attemptFailed, .connectionEnded:
                if times.faultAt != nil, times.detectedAt == nil { times.detectedAt = now }
            case .state(.open):
                times.isOpen = true
                times.openAt = now
            case .state(.closed(let reason)):
                times.isOpen = false
                times.end = reason
            case .state: times.isOpen = false
            default: break
            }
        }
    }
}
