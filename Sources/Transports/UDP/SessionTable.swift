import TransportAPI

/// The live sessions of a server: which attempt brought each one, how many each network has, and who gives way to a newcomer when
/// there is no room.
///
/// They stand in three lines, each in the order of their silence. First to go are those that have said nothing since they came;
/// then those that came when their network had many, so that no single one shuts all others out; then the rest. Many in one line
/// stand before the next one, even while none of them has been silent for long enough.
struct SessionTable: Sendable {
    /// For how long a session is safe after it has said something.
    static let minimumSilence: Int64 = 1_000_000_000
    /// Many are this part of all sessions that there may be.
    static let manyPart = 64
    /// A session is put at the end of its line at most so often, in nanoseconds: what orders lines need not be exact.
    private static let exactness: Int64 = 100_000_000

    private enum Line: Int, CaseIterable {
        case mute, crowd, others
    }

    private struct Entry {
        var id: UInt64
        var attempt: UInt64
        var network: Int
        /// Nanoseconds.
        var heardAt: Int64
        var line: Line
        var isOfCrowd: Bool
        /// Its neighbours in the line, -1 where there is none.
        var before = -1
        var after = -1
    }

    private let many: Int
    private var entries: [Entry] = []
    private var free: [Int] = []
    private var places: [UInt64: Int] = [:]
    private var lines = Array(repeating: (first: -1, last: -1, count: 0), count: Line.allCases.count)
    private var networks: [Int: Int] = [:]

    /// - Parameter limit: how many sessions there may be.
    init(limit: Int) {
        many = max(1, limit / Self.manyPart)
    }

    var count: Int { places.count }

    func contains(_ id: UInt64) -> Bool { places[id] != nil }

    /// How many sessions came from a network.
    func count(of network: Int) -> Int { networks[network] ?? 0 }

    /// A session says something; `false` if there is none of this id.
    mutating func heard(_ id: UInt64, _ now: Instant) -> Bool {
        guard let place = places[id] else { return false }
        let isMute = entries[place].line == .mute
        guard isMute || now.nanoseconds - entries[place].heardAt >= Self.exactness else { return true }
        unlink(place)
        entries[place].heardAt = now.nanoseconds
        if isMute { entries[place].line = entries[place].isOfCrowd ? .crowd : .others }
        link(place)
        return true
    }

    /// Adds a session, whose id must be new.
    mutating func insert(_ id: UInt64, attempt: UInt64, network: Int, _ now: Instant) {
        let before = count(of: network)
        networks[network] = before + 1
        let entry = Entry(
            id: id,
            attempt: attempt,
            network: network,
            heardAt: now.nanoseconds,
            line: .mute,
            isOfCrowd: before >= many
        )
        let place = free.popLast() ?? entries.count
        if place == entries.count { entries.append(entry) } else { entries[place] = entry }
        places[id] = place
        link(place)
    }

    /// Takes a session out; gives the attempt that brought it, or `nil` if there is none of this id.
    mutating func remove(_ id: UInt64) -> UInt64? {
        guard let place = places.removeValue(forKey: id) else { return nil }
        unlink(place)
        free.append(place)
        let network = entries[place].network
        let left = count(of: network) - 1
        networks[network] = left > 0 ? left : nil
        return entries[place].attempt
    }

    /// The session that gives way to a newcomer; `nil` if none has been silent for long enough.
    ///
    /// - Parameter onlyMute: whether those that have spoken stay, whatever comes.
    func mostSilent(_ now: Instant, onlyMute: Bool) -> UInt64? {
        for line in Line.allCases where line == .mute || !onlyMute {
            let (place, _, count) = lines[line.rawValue]
            if place >= 0, now.nanoseconds - entries[place].heardAt >= Self.minimumSilence { return entries[place].id }
            guard count < many else { return nil }
        }
        return nil
    }

    // MARK: Lines

    private mutating func link(_ place: Int) {
        let line = entries[place].line.rawValue
        let last = lines[line].last
        entries[place].before = last
        entries[place].after = -1
        if last >= 0 { entries[last].after = place } else { lines[line].first = place }
        lines[line].last = place
        lines[line].count += 1
    }

    private mutating func unlink(_ place: Int) {
        let (line, before, after) = (entries[place].line.rawValue, entries[place].before, entries[place].after)
        if before >= 0 { entries[before].after = after } else { lines[line].first = after }
        if after >= 0 { entries[after].before = before } else { lines[line].last = before }
        lines[line].count -= 1
    }
}
