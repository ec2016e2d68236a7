/// The doubt whether a server still knows an encrypted connection.
///
/// A server that has lost its state answers with an alert that is not encrypted. Any host can send such an alert, so it ends
/// nothing by itself. It causes pings, and the connection ends if nothing that is encrypted arrives within ``answerTimeout``.
struct ServerDoubt {
    /// The next step of a doubt.
    enum Step: Equatable {
        /// Ping the server now, and call ``step(now:)`` again at this time.
        case ping(again: Int64)
        /// End the connection.
        case giveUp
    }

    /// The time for an encrypted datagram to arrive after the alert, in nanoseconds.
    static let answerTimeout: Int64 = 3_000_000_000
    /// The time between two pings, in nanoseconds.
    static let pingPause: Int64 = 500_000_000
    /// The shortest time from one alert that causes pings to the next one, in nanoseconds.
    static let pause: Int64 = 1_000_000_000

    /// When to end the connection; `nil` if there is no doubt.
    private var until: Int64?
    private var nextAt: Int64 = 0

    /// Handles an alert. Returns when to take the first step, if this alert begins a doubt.
    mutating func begin(now: Int64) -> Int64? {
        guard until == nil, nextAt <= now else { return nil }
        nextAt = now + Self.pause
        until = now + Self.answerTimeout
        return now + 1
    }

    /// Ends the doubt, because something encrypted has arrived or the connection is closed. Returns whether there was one.
    mutating func end() -> Bool {
        guard until != nil else { return false }
        until = nil
        return true
    }

    /// Returns the step that is due now; `nil` if the doubt has ended.
    func step(now: Int64) -> Step? {
        until.map { now < $0 ? .ping(again: now + Self.pingPause) : .giveUp }
    }
}
