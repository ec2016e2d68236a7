import Logging
import TransportAPI

/// Writes the events of a supervisor to a log of swift-log.
public struct LogObserver: SupervisorObserver {
    private let logger: Logger

    /// Creates an observer; `setup.observer = LogObserver(Logger(label: "chat"))`.
    public init(_ logger: Logger) {
        self.logger = logger
    }

    /// Receives an event of the supervisor.
    public func note(_ event: SupervisorEvent, at time: Instant) {
        switch event {
        case .state(let state):
            logger.info("state", metadata: ["state": "\(state)"])
        case .attemptFailed(let endpoint, let error):
            logger.warning("attempt failed", metadata: ["endpoint": "\(endpoint)", "error": "\(error)"])
        case .optionSkipped(let endpoint, let name, let reason):
            logger.notice("skipped \(name)", metadata: ["endpoint": "\(endpoint)", "reason": "\(reason)"])
        case .encrypted(let endpoint, let encryption) where !encryption.isVerified:
            logger.warning("the server was not verified", metadata: ["endpoint": "\(endpoint)"])
        case .encrypted(let endpoint, let encryption):
            logger.info("encrypted", metadata: ["endpoint": "\(endpoint)", "version": "\(encryption.version)"])
        case .connectionEnded(let endpoint, let reason):
            logger.notice("connection ended", metadata: ["endpoint": "\(endpoint)", "reason": "\(reason)"])
        case .finished(let id, let outcome) where !outcome.isSuccess:
            logger.warning("message not delivered", metadata: ["id": "\(id)", "outcome": "\(outcome)"])
        case .storeFailed(let error):
            logger.error("store failed", metadata: ["error": "\(error)"])
        case .sessionLost, .notConnecting, .discarded, .unclaimed, .unacknowledged, .undecodable:
            logger.warning("\(event)")
        case .roundTrip, .keepaliveInterval, .duplicate, .unexpectedReply:
            logger.debug("\(event)")
        case .submitted, .finished, .received:
            logger.trace("\(event)")
        }
    }
}

/// Passes the events of a supervisor to several observers.
public struct Observers: SupervisorObserver {
    private let observers: [any SupervisorObserver]

    /// Creates an observer from its parts, in their order.
    public init(_ observers: any SupervisorObserver...) {
        self.observers = observers
    }

    /// Receives an event of the supervisor.
    public func note(_ event: SupervisorEvent, at time: Instant) {
        for observer in observers { observer.note(event, at: time) }
    }
}
