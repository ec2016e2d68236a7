/// The clients of a server in several lines, so that the server finds the client that makes room for a new one at once.
/// Each line is ordered by when its clients joined it. A client whose network already had many clients when it came
/// belongs to a crowd. So a server can end clients of crowds before others.
package struct EvictionQueue<ID: Hashable & Sendable, Network: Hashable & Sendable>: Sendable {
    private struct Entry: Sendable {
        var id: ID
        var network: Network?
        /// When the client joined the line, in nanoseconds.
        var since: Int64
        var line: Int
        var isOfCrowd: Bool
        /// The neighbours in the line; -1 if there is none.
        var before = -1
        var after = -1
    }

    /// The number of clients from which on a network is a crowd: a 64th of the maximum number of clients.
    package let many: Int
    private var entries: [Entry] = []
    private var free: [Int] = []
    private var places: [ID: Int] = [:]
    private var lines: [(first: Int, last: Int, count: Int)]
    private var networks: [Network: Int] = [:]

    /// - Parameters:
    ///   - lines: The number of lines; the first is 0.
    ///   - limit: The maximum number of clients.
    package init(lines: Int, limit: Int) {
        self.lines = Array(repeating: (-1, -1, 0), count: lines)
        many = max(1, limit / 64)
    }

    package var count: Int { places.count }

    package func contains(_ id: ID) -> Bool { places[id] != nil }

    /// Returns how many clients came from a network.
    package func count(of network: Network) -> Int { networks[network] ?? 0 }

    /// Adds a client, whose id must be new.
    ///
    /// - Parameters:
    ///   - network: The network of the client. A client without a known network belongs to no crowd.
    ///   - line: Returns its line, given whether it belongs to a crowd.
    package mutating func insert(_ id: ID, from network: Network?, at now: Instant, line: (_ isOfCrowd: Bool) -> Int) {
        var before = 0
        if let network {
            before = count(of: network)
            networks[network] = before + 1
        }
        let isOfCrowd = before >= many
        let entry = Entry(
            id: id,
            network: network,
            since: now.nanoseconds,
            line: line(isOfCrowd),
            isOfCrowd: isOfCrowd
        )
        let place = free.popLast() ?? entries.count
        if place == entries.count { entries.append(entry) } else { entries[place] = entry }
        places[id] = place
        link(place)
    }

    /// Removes a client. Returns whether it was there.
    @discardableResult
    package mutating func remove(_ id: ID) -> Bool {
        guard let place = places.removeValue(forKey: id) else { return false }
        unlink(place)
        free.append(place)
        if let network = entries[place].network {
            let left = count(of: network) - 1
            networks[network] = left > 0 ? left : nil
        }
        return true
    }

    /// Moves a client to the end of a line. Does nothing if the client is not there.
    package mutating func move(_ id: ID, at now: Instant, to line: (_ isOfCrowd: Bool) -> Int) {
        guard let place = places[id] else { return }
        unlink(place)
        entries[place].since = now.nanoseconds
        entries[place].line = line(entries[place].isOfCrowd)
        link(place)
    }

    /// Returns the line of a client and since when it is there, in nanoseconds, or `nil` if the client is not there.
    package func place(of id: ID) -> (line: Int, since: Int64)? {
        places[id].map { (entries[$0].line, entries[$0].since) }
    }

    /// Returns the client that has been in a line longest, and since when.
    package func first(in line: Int) -> (id: ID, since: Int64)? {
        let place = lines[line].first
        return place < 0 ? nil : (entries[place].id, entries[place].since)
    }

    /// Returns how many clients are in a line.
    package func count(in line: Int) -> Int { lines[line].count }

    private mutating func link(_ place: Int) {
        let line = entries[place].line
        let last = lines[line].last
        entries[place].before = last
        entries[place].after = -1
        if last >= 0 { entries[last].after = place } else { lines[line].first = place }
        lines[line].last = place
        lines[line].count += 1
    }

    private mutating func unlink(_ place: Int) {
        let (line, before, after) = (entries[place].line, entries[place].before, entries[place].after)
        if before >= 0 { entries[before].after = after } else { lines[line].first = after }
        if after >= 0 { entries[after].before = before } else { lines[line].last = before }
        lines[line].count -= 1
    }
}
