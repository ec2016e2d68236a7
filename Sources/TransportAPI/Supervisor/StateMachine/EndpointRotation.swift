/// The turn of the endpoints: which one is next, and which ones are left out for how long.
struct EndpointRotation: Sendable {
    /// The longest Retry-After time that is respected.
    static let longestRetryAfter = Duration.seconds(3600)

    private let count: Int
    /// The endpoint of the current attempt or connection.
    private(set) var current = 0
    /// The endpoint of the last connection that opened.
    private var good = 0
    /// The endpoints that are not tried, and until when.
    private(set) var setAside: [Int: RetryPolicy.SetAside] = [:]
    /// The endpoints that have accepted a connection.
    private var worked: Set<Int> = []
    /// The time before which an endpoint must not be tried.
    private var notBefore: [Int: Instant] = [:]
    /// The endpoints that have failed in the current round.
    private var failedInRound: Set<Int> = []
    /// Those of them whose answers may come from the path.
    private var disturbedInRound: Set<Int> = []

    init(count: Int) {
        self.count = count
    }

    /// Whether the current endpoint has accepted a connection.
    var hasWorked: Bool { worked.contains(current) }

    /// The history of the current endpoint.
    var history: RetryPolicy.History { worked.isEmpty ? .none : hasWorked ? .this : .others }

    // MARK: Connections

    /// A connection to the current endpoint has opened.
    mutating func opened() {
        good = current
        (failedInRound, disturbedInRound) = ([], [])
        notBefore[current] = nil
        setAside = setAside.filter { $0.value != .untilAnotherOpens }
    }

    /// The endpoint has accepted the connection that is or was open.
    mutating func accepted() { worked.insert(good) }

    /// The connection has ended.
    mutating func ended() { current = good }

    /// The connection was stable, so all endpoints may be tried again.
    mutating func wasStable() { setAside = [:] }

    // MARK: Failures

    /// The current endpoint requests no attempt for this time (Retry-After).
    mutating func pauses(for time: Duration, at now: Instant) {
        notBefore[current] = now.advanced(by: min(time, Self.longestRetryAfter))
    }

    /// The current endpoint has failed.
    ///
    /// - Parameter isDisturbed: Whether the answer may come from the path.
    mutating func failed(isDisturbed: Bool) {
        failedInRound.insert(current)
        if isDisturbed { disturbedInRound.insert(current) }
    }

    /// The current endpoint is wrong. Returns whether another one can be tried.
    mutating func setAside(_ time: RetryPolicy.SetAside) -> Bool {
        setAside[current] = time
        return setAside.count < count
    }

    /// Whether all endpoints were tried, except those with a Retry-After time in the future.
    func isRoundOver(at now: Instant) -> Bool {
        (0..<count).allSatisfy { setAside[$0] != nil || failedInRound.contains($0) || isPausing($0, at: now) }
    }

    /// Ends the round. Returns whether every endpoint that failed in it may have been disturbed by the path.
    mutating func endRound() -> Bool {
        defer { (failedInRound, disturbedInRound) = ([], []) }
        return !disturbedInRound.isEmpty && disturbedInRound == failedInRound
    }

    // MARK: The next one

    /// Turns to the next endpoint without a Retry-After time in the future. If there is none, turns to the one whose time comes
    /// first.
    mutating func advance(at now: Instant) {
        let turn = (1...count).map { (current + $0) % count }.filter { setAside[$0] == nil }
        func time(_ endpoint: Int) -> Instant { max(now, notBefore[endpoint, default: now]) }
        current = turn.min { time($0) < time($1) } ?? current
    }

    /// Turns to another endpoint if the current one requests no attempt now.
    mutating func advanceIfPausing(at now: Instant) {
        if isPausing(current, at: now) { advance(at: now) }
    }

    private func isPausing(_ endpoint: Int, at now: Instant) -> Bool { notBefore[endpoint, default: now] > now }

    /// The time until the current endpoint may be tried.
    func pause(at now: Instant) -> Duration { notBefore[current].map { now.duration(to: $0) } ?? .zero }
}
