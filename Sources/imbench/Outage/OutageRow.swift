import SocketIO
import TransportAPI
import Transports

/// What one row has found.
struct OutageRow: Sendable {
    var transport: String
    var fault: OutageFault
    /// From the fault to the loss of the link; `nil` if the link was kept.
    var detect: Duration?
    /// From the moment from which the path was good again to the open link; `nil` if it was kept, or never came back.
    var recover: Duration?
    var sent = 0
    /// How messages ended, by the outcome's name.
    var outcomes: [String: Int] = [:]
    /// Messages acknowledged that the server has not taken.
    var lost = 0
    /// Messages acknowledged that the server has taken more than once.
    var duplicated = 0
    var reordered = 0
    /// Why there is no such row.
    var skipped: String?
    /// What went wrong with it.
    var failure: String?

    var acked: Int { outcomes["acknowledged", default: 0] }
    var inFlight: Int { sent - outcomes.values.reduce(0, +) }
}

/// The times of all rows.
struct OutageTiming: Sendable, Equatable {
    /// The keepalive interval, after which silence is asked about.
    var interval: Duration = .milliseconds(500)
    /// How long the answer may take.
    var timeout: Duration = .milliseconds(500)
    /// How long a fault lasts that does not pass by itself.
    var outage: Duration = .milliseconds(1500)
    /// Time between messages.
    var pace: Duration = .milliseconds(5)

    /// What a supervisor gets of it. The backoff is short, so that recovering shows what the library does and not what it
    /// waits for.
    var configuration: SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.connectTimeout = .seconds(2)
        configuration.backoff = .exponential(
            initial: .milliseconds(20),
            maximum: .milliseconds(200),
            multiplier: 2,
            jitter: .full
        )
        configuration.stableAfter = .milliseconds(100)
        configuration.keepalive.interval = .fixed(interval)
        configuration.keepalive.timeout = timeout
        configuration.delivery.mode = .session
        return configuration
    }

    /// Nobody should need longer than this to come back.
    var patience: Duration { interval + timeout + outage + .seconds(10) }
}
