import TransportAPI

/// The live sessions of a server. The table stores which attempt opened each session and how many sessions each network
/// has. It selects the session that is replaced by a new one.
///
/// The sessions are in three lines, each in the order of their silence. The first line has sessions that have sent
/// nothing since they were opened. The second has those that were opened when their network already had many, so that
/// no single network excludes all others. The third has the rest. The search begins with the first line. It ends at a
/// line with many sessions, even if none of them has been silent for long enough.
struct SessionTable: Sendable {
    /// The shortest silence after which a session may be replaced, in nanoseconds.
    static let minimumSilence: Int64 = 1_000_000_000
    /// A session moves to the end of its line at most this often, in nanoseconds. The order of lines need not be exact.
    private static let exactness: Int64 = 100_000_000

    private enum Line: Int, CaseIterable {
        /// The sessions that have sent nothing, those of crowded networks, and the rest.
        case mute, crowd, others
    }

    private var lines: EvictionQueue<UInt64, Int>
    private var attempts: [UInt64: UInt64] = [:]

    /// Creates an empty table for at most `limit` sessions.
    init(limit: Int) {
        lines = EvictionQueue(lines: Line.allCases.count, limit: limit)
    }

    var count: Int { lines.count }

    func contains(_ id: UInt64) -> Bool { lines.contains(id) }

    /// How many sessions came from a network.
    func count(of network: Int) -> Int { lines.count(of: network) }

    /// Records that a session has sent something. Returns `false` if there is no session with this id.
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

    /// Removes a session. Returns the attempt that opened it, or `nil` if there is no session with this id.
    mutating func remove(_ id: UInt64) -> UInt64? {
        lines.remove(id)
        return attempts.removeValue(forKey: id)
    }

    /// The session that a new one replaces; `nil` if none has been silent for long enough. With `onlyMute`, only
    /// sessions that have sent nothing are candidates.
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
