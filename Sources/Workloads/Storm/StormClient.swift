import Primitives
import SocketIO
import TransportAPI

/// A client of a simulated storm: how far it is from the server, and when it tries again.
struct StormClient: Sendable {
    private static let latestNotice = Duration.milliseconds(100)
    static let roundTrip = Duration.milliseconds(1)...Duration.milliseconds(50)

    /// Half of the round trip, in nanoseconds.
    let halfTrip: Int64
    var backoff: Backoff

    init(_ policy: BackoffPolicy, using random: inout RandomSource) {
        let (low, high) = (Self.roundTrip.lowerBound.wholeNanoseconds, Self.roundTrip.upperBound.wholeNanoseconds)
        halfTrip = Int64.random(in: low...high, using: &random) / 2
        backoff = Backoff(policy)
    }

    /// Returns how long a client does not notice that its connection is lost, in nanoseconds.
    static func notice(using random: inout RandomSource) -> Int64 {
        Int64.random(in: 0...latestNotice.wholeNanoseconds, using: &random)
    }

    /// Returns when the attempt after a failure arrives at the server, which may be after the limit; `nil` if the client gives up.
    mutating func nextArrival(after failure: Int64, limit: Int64, using random: inout RandomSource) -> Int64? {
        guard let delay = backoff.next(using: &random) else { return nil }
        // A delay beyond the limit has the same effect as the limit, and cannot overflow.
        let wait = delay == .zero ? 0 : min(max(0, delay.wholeNanoseconds), limit)
        return failure + wait + halfTrip
    }
}
