import TransportAPI

/// The sessions of a broker: a fresh one for each client that asks for a clean session, and for the others the one that
/// they left behind (MQTT 3.1.1, section 3.1.2.4). Kept in memory, at most so many, and for so long without a connection.
package final class MQTTSessions: @unchecked Sendable {
    // Unchecked, because it is only ever touched on the loop on which all connections of its broker live.

    private struct Kept {
        let session: MQTTSession
        /// When its connection ended, as a count of such ends; `nil` while it has a connection.
        var left: UInt64?
    }

    /// The end of a connection.
    private struct Leave {
        var key: [UInt8]
        var number: UInt64
        var expiry: Instant
    }

    /// So many ends of connections are not worth being looked through.
    private static let fewLeaves = 64

    /// What they keep together, in bytes.
    package let quota = QueuedBytesQuota()
    private let maximumKept: Int
    private let expiry: Duration
    /// What each session begins with.
    private let outbox: MQTTOutbox
    /// Keys are bytes, because two client identifiers that Swift holds for equal may differ on the wire.
    private var kept: [[UInt8]: Kept] = [:]
    /// The ends of connections, oldest first, some of whose sessions have a connection again or are gone; from `firstLeave` on.
    private var leaves: [Leave] = []
    private var firstLeave = 0
    private var lastID: UInt64 = 0
    private var lastLeft: UInt64 = 0
    private var forgotten: [UInt64] = []

    /// No sessions yet; of those that are not clean, at most `maximumKept` at a time, each for `expiry` after its
    /// connection's end. Each has an outbox of these bounds.
    package init(
        maximumKept: Int = 1000,
        expiry: Duration = .seconds(7 * 86_400),
        queuedMessages: Int = 1000,
        queuedBytes: Int = 1 << 20
    ) {
        self.maximumKept = maximumKept
        self.expiry = expiry
        outbox = MQTTOutbox(maximumCount: queuedMessages, maximumBytes: queuedBytes, quota: quota)
    }

    /// The session of a client that was let in, and whether it was there before; `nil` if there are too many and all of
    /// them have connections. Where there are too many otherwise, who has been away longest is forgotten.
    func open(_ connect: MQTTConnect, now: Instant) -> (session: MQTTSession, isPresent: Bool)? {
        expire(now)
        let key = Array(connect.clientID.utf8)
        if connect.cleanSession {
            if let former = kept.removeValue(forKey: key) { forgotten.append(former.session.id) }
            return (fresh(isClean: true, key), false)
        }
        if let former = kept[key] {
            kept[key]?.left = nil
            return (former.session, true)
        }
        if kept.count >= maximumKept {
            guard let oldest = oldestAway else { return nil }
            forget(oldest.key)
        }
        let session = fresh(isClean: false, key)
        kept[key] = Kept(session: session)
        return (session, false)
    }

    private func fresh(isClean: Bool, _ key: [UInt8]) -> MQTTSession {
        lastID += 1
        return MQTTSession(id: lastID, isClean: isClean, name: key, outbox: outbox)
    }

    /// The connection of a session has ended, and no other has taken it over.
    package func left(_ session: MQTTSession, now: Instant) {
        guard kept[session.name]?.session === session else { return }
        lastLeft += 1
        kept[session.name]?.left = lastLeft
        // Of each session the last end counts, so that what is left is no more than there are; and as many more have to come
        // before it is looked through again.
        if leaves.count > Self.fewLeaves + 2 * kept.count {
            leaves = leaves[firstLeave...].filter(isAway)
            firstLeave = 0
        }
        leaves.append(Leave(key: session.name, number: lastLeft, expiry: now.advanced(by: expiry)))
    }

    /// How many ends of connections are remembered.
    package var leaveCount: Int { leaves.count }

    // MARK: Forgetting

    /// Forgets the sessions that have been without a connection for too long.
    package func expire(_ now: Instant) {
        while firstLeave < leaves.count, leaves[firstLeave].expiry <= now {
            if isAway(leaves[firstLeave]) { forget(leaves[firstLeave].key) }
            firstLeave += 1
        }
    }

    /// Forgets, of those without a connection, the session that keeps most; `false` if none of them keeps anything.
    /// Looks at all.
    package func forgetLargest() -> Bool {
        var most: (key: [UInt8], bytes: Int)?
        for (key, entry) in kept where entry.left != nil && entry.session.keptBytes > most?.bytes ?? 0 {
            most = (key, entry.session.keptBytes)
        }
        guard let most else { return false }
        forget(most.key)
        return true
    }

    /// Who has been away longest.
    private var oldestAway: Leave? {
        while firstLeave < leaves.count {
            if isAway(leaves[firstLeave]) { return leaves[firstLeave] }
            firstLeave += 1
        }
        return nil
    }

    /// Whether a session has had no connection since.
    private func isAway(_ leave: Leave) -> Bool { kept[leave.key]?.left == leave.number }

    private func forget(_ key: [UInt8]) {
        if let former = kept.removeValue(forKey: key) { forgotten.append(former.session.id) }
    }

    /// The sessions that have ended since this was asked last, by their numbers.
    package func takeForgotten() -> [UInt64] {
        guard !forgotten.isEmpty else { return [] }
        defer { forgotten = [] }
        return forgotten
    }
}
