import TransportAPI

/// The live sessions of a server: which attempt brought each one, how many each network has, and which one makes room
/// for a newcomer.
///
/// They stand in three lines, each in the order of their silence. First to go are those that have said nothing since
/// they came; then those that came when their network had many, so that no single one shuts all others out; then the
/// rest. Many in one line stand before the next one, even while none of them has been silent for long enough.
struct SessionTable: Sendable {
    /// For how long a session is safe after it has said something.
    static let minimumSilence: Int64 = 1_000_000_000
    /// A session is put at the end of its line at most so often, in nanoseconds: what orders lines need not be exact.
    private static let exactness: Int64 = 100_000_000

    private enum Line: Int, CaseIterable {
        case mute, crowd, others
    }

    private var lines: ClientLines<UInt64, Int>
    private var attempts: [UInt64: UInt64] = [:]

    /// - Parameter limit: how many sessions there may be.
    init(limit: Int) {
        lines = ClientLines(lines: Line.allCases.count, limit: limit)
    }

    var count: Int { lines.count }

    func contains(_ id: UInt64) -> Bool { lines.contains(id) }

    /// How many sessions came from a network.
    func count(of network: Int) -> Int { lines.count(of: network) }

    /// A session says something; `false` if there is none of this id.
    mutating func heard(_ id: UInt64, _ now: Instant) -> Bool {
        guard let (line, since) = lines.place(of: id) else { return false }
        guard line == Line.mute.rawValue || now.nanoseconds - since >= Self.exactness else { return true }
        lines.move(id, at: now) { $0 ? Line.crowd.rawValue : Line.others.rawValue }
        return true
    }

    /// Adds a session, whose id must be new.
    mutating func insert(_ id: UInt64, attempt: UInt64, network: Int, _ now: Instant) {
        lines.insert(id, from: network, at: now) { _ in Line.mute.rawValue }
        attempts[id] = attempt
    }

    /// Takes a session out; gives the attempt that brought it, or `nil` if there is none of this id.
    mutating func remove(_ id: UInt64) -> UInt64? {
        lines.remove(id)
        return attempts.removeValue(forKey: id)
    }

    /// The session that gives way to a newcomer; `nil` if none has been silent for long enough.
    ///
    /// - Parameter onlyMute: whether those that have spoken stay, whatever comes.
    func mostSilent(_ now: Instant, onlyMute: Bool) -> UInt64? {
        for line in Line.allCases where line == .mute || !onlyMute {
            if let (id, since) = lines.first(in: line.rawValue), now.nanoseconds - since >= Self.minimumSilence {
                return id
            }
            guard lines.count(in: line.rawValue) < lines.many else { return nil }
        }
        return nil
    }
}
