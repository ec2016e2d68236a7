/// The clients of a server in several lines, so that the server finds the one that makes room for a newcomer at once.
/// Each line is in the order in which the clients came to it. A client whose network already had many clients when it
/// came is of a crowd, so that a server can let crowds make room before others.
package struct ClientLines<ID: Hashable & Sendable, Network: Hashable & Sendable>: Sendable {
    private struct Entry: Sendable {
        var id: ID
        var network: Network?
        /// Nanoseconds.
        var since: Int64
        var line: Int
        var isOfCrowd: Bool
        /// Its neighbours in the line, -1 where there is none.
        var before = -1
        var after = -1
    }

    /// From how many clients on a network is a crowd: a 64th of all that there may be.
    package let many: Int
    private var entries: [Entry] = []
    private var free: [Int] = []
    private var places: [ID: Int] = [:]
    private var lines: [(first: Int, last: Int, count: Int)]
    private var networks: [Network: Int] = [:]

    /// - Parameters:
    ///   - lines: how many lines there are; the first is 0.
    ///   - limit: how many clients there may be.
    package init(lines: Int, limit: Int) {
        self.lines = Array(repeating: (-1, -1, 0), count: lines)
        many = max(1, limit / 64)
    }

    package var count: Int { places.count }

    package func contains(_ id: ID) -> Bool { places[id] != nil }

    /// How many clients came from a network.
    package func count(of network: Network) -> Int { networks[network] ?? 0 }

    /// Adds a client, whose id must be new.
    ///
    /// - Parameters:
    ///   - network: where it comes from; a client of which that is not known is of no crowd.
    ///   - line: gives its line, knowing whether it is of a crowd.
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
        connection(place)
    }

    /// Takes a client out; whether it was there.
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

    /// Puts a client at the end of a line; does nothing if it is not there.
    package mutating func move(_ id: ID, at now: Instant, to line: (_ isOfCrowd: Bool) -> Int) {
        guard let place = places[id] else { return }
        unlink(place)
        entries[place].since = now.nanoseconds
        entries[place].line = line(entries[place].isOfCrowd)
        connection(place)
    }

    /// Where a client is and since when, in nanoseconds; `nil` if it is not there.
    package func place(of id: ID) -> (line: Int, since: Int64)? {
        places[id].map { (entries[$0].line, entries[$0].since) }
    }

    /// The client that has been in a line for longest, and since when.
    package func first(in line: Int) -> (id: ID, since: Int64)? {
        let place = lines[line].first
        return place < 0 ? nil : (entries[place].id, entries[place].since)
    }

    /// How many clients are in a line.
    package func count(in line: Int) -> Int { lines[line].count }

    private mutating func connection(_ place: Int) {
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

/// A connection that knows which network its peer is in.
package protocol LocatedConnection: Connection {
    /// The same number for all addresses that one owner is likely to hold: an IPv4 address, or the first 64 bits of an
    /// IPv6 address. `nil` where there is no address.
    var peerNetwork: UInt64? { get }
}
