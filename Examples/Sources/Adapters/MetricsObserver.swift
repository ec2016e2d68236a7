import Metrics
import TransportAPI

/// Counts the events of a supervisor for swift-metrics.
public struct MetricsObserver: SupervisorObserver {
    private let isOpen: Gauge
    private let roundTrips: Timer
    private let attemptsFailed, sent, failed, received, bytesSent, bytesReceived: Counter

    /// Creates an observer. The names of all metrics begin with `prefix`.
    public init(prefix: String = "im", factory: any MetricsFactory = MetricsSystem.factory) {
        isOpen = Gauge(label: "\(prefix).connected", factory: factory)
        roundTrips = Timer(label: "\(prefix).round_trip", factory: factory)
        attemptsFailed = Counter(label: "\(prefix).attempts_failed", factory: factory)
        sent = Counter(label: "\(prefix).messages_sent", factory: factory)
        failed = Counter(label: "\(prefix).messages_failed", factory: factory)
        received = Counter(label: "\(prefix).messages_received", factory: factory)
        bytesSent = Counter(label: "\(prefix).bytes_submitted", factory: factory)
        bytesReceived = Counter(label: "\(prefix).bytes_received", factory: factory)
    }

    /// Receives an event of the supervisor.
    public func note(_ event: SupervisorEvent, at time: Instant) {
        switch event {
        case .state(let state): isOpen.record(state.isOpen ? 1 : 0)
        case .roundTrip(let time): roundTrips.record(duration: time)
        case .attemptFailed: attemptsFailed.increment()
        case .submitted(_, let bytes): bytesSent.increment(by: bytes)
        case .finished(_, let outcome): (outcome.isSuccess ? sent : failed).increment()
        case .received(let bytes):
            received.increment()
            bytesReceived.increment(by: bytes)
        default: break
        }
    }
}
