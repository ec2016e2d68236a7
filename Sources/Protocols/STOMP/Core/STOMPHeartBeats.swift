import TransportAPI

/// The heart-beats in both directions on which the two sides have agreed (section "Heart-beating").
struct STOMPHeartBeats: Sendable {
    /// The time within which this side must send something, in nanoseconds; 0 if there is no limit.
    private(set) var outgoing: Int64 = 0
    /// The time within which the peer must send something, in nanoseconds; 0 if there is no limit.
    private(set) var incoming: Int64 = 0
    private let margin: Int64

    /// Creates the heart-beats before an agreement: none.
    init(margin: Duration) {
        self.margin = margin.wholeNanoseconds
    }

    /// The two numbers of the header that a client sends, in milliseconds.
    static func offer(_ configuration: STOMPConfiguration) -> (outgoing: Int64, incoming: Int64) {
        (milliseconds(configuration.outgoingHeartBeat), milliseconds(configuration.incomingHeartBeat))
    }

    private static func milliseconds(_ interval: Duration?) -> Int64 {
        (interval?.wholeNanoseconds ?? 0) / 1_000_000
    }

    /// Reads the two numbers of a header. Returns `nil` if it is not two numbers and a comma. A number that is too
    /// large for its type counts as the largest.
    static func read(_ text: String) -> (outgoing: Int64, incoming: Int64)? {
        let parts = text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        guard parts.count == 2, let outgoing = number(parts[0]), let incoming = number(parts[1]) else { return nil }
        return (outgoing, incoming)
    }

    private static func number(_ digits: Substring.UTF8View) -> Int64? {
        guard !digits.isEmpty, digits.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return nil }
        return Int64(Substring(digits)) ?? .max
    }

    /// Sets the intervals from the offers of both sides. In each direction the longer interval counts, and 0 on either
    /// side means that there are no heart-beats.
    mutating func agree(_ own: (outgoing: Int64, incoming: Int64), _ peer: (outgoing: Int64, incoming: Int64)) {
        outgoing = Self.interval(own.outgoing, peer.incoming)
        incoming = Self.interval(peer.outgoing, own.incoming)
    }

    private static func interval(_ can: Int64, _ wanted: Int64) -> Int64 {
        guard can > 0, wanted > 0 else { return 0 }
        return Duration.milliseconds(max(can, wanted)).wholeNanoseconds
    }

    /// When the next heart-beat is due: a quarter of the interval early, because it has a way to go. While output is
    /// leaving, the peer receives that.
    func due(_ times: PathTimes) -> Instant? {
        guard outgoing > 0 else { return nil }
        return max(times.lastSent, times.outputMoved).advanced(byNanoseconds: outgoing - outgoing / 4)
    }

    /// When the silence of the peer is too long. A peer that looks at a fixed rhythm whether it has sent something since the
    /// last look, as ActiveMQ does, is silent for up to twice the interval.
    func silenceDue(_ times: PathTimes) -> Instant? {
        guard incoming > 0 else { return nil }
        let tolerated = min(margin, max(incoming, 1_000_000_000))
        return max(times.lastReceived, times.unreadUntil, times.outputMoved).advanced(byNanoseconds: incoming)
            .advanced(byNanoseconds: incoming).advanced(byNanoseconds: tolerated)
    }

    /// The agreed interval in a sentence.
    var promise: String { "\(Duration.nanoseconds(incoming))" }
}
