import TransportAPI

/// The reconnect policies that `imbench storm` compares, by the names that the command line uses.
package enum StormPolicy: String, Sendable, Hashable, CaseIterable {
    case immediate, fixed
    case noJitter = "no-jitter"
    case equalJitter = "equal-jitter"
    case fullJitter = "full-jitter"
    case signalr

    /// The library's own policy. The exponential ones are ``BackoffPolicy/standard`` and differ from it in jitter only.
    package var backoff: BackoffPolicy {
        switch self {
        case .immediate: .immediate
        case .fixed: .fixed(.seconds(5))
        case .noJitter: Self.exponential(.none)
        case .equalJitter: Self.exponential(.equal)
        case .fullJitter: Self.exponential(.full)
        // The default delays of ASP.NET Core SignalR's withAutomaticReconnect().
        case .signalr: .schedule([.zero, .seconds(2), .seconds(10), .seconds(30)], givesUp: true)
        }
    }

    private static func exponential(_ jitter: BackoffPolicy.Jitter) -> BackoffPolicy {
        guard case .exponential(let initial, let maximum, let multiplier, _) = BackoffPolicy.standard else {
            return .standard
        }
        return .exponential(initial: initial, maximum: maximum, multiplier: multiplier, jitter: jitter)
    }
}
