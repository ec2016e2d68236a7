import TransportAPI

/// The sessions of a broker (MQTT 3.1.1, section 3.1.2.4). A client that requests a clean session gets a new one. Other
/// clients get their earlier session, if it still exists. The sessions are in memory. Their number is limited, and so
/// is their time without a connection.
package final class MQTTSessions: @unchecked Sendable {
    // Unchecked, because it is only used on the loop of all connections of its broker.

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

    /// The list of ends is not cleaned up while it has no more than this.
    private static let fewLeaves = 64

    /// The bytes that all sessions buffer together.
    package let quota = QueuedBytesQuota()
    private let maximumKept: Int
    private let expiry: Duration
    /// The initial outbox of each session.
    private let outbox: MQTTOutbox
    /// Keys are bytes, because client identifiers that Swift considers equal can differ on the wire.
    private var kept: [[UInt8]: Kept] = [:]
    /// The ends of connections, oldest first, from `firstLeave` on. Some of these sessions have a connection again, or
    /// no longer exist.
    private var leaves: [Leave] = []
    private var firstLeave = 0
    private var lastID: UInt64 = 0
    private var lastLeft: UInt64 = 0
    private var forgotten: [UInt64] = []

    /// Creates an empty set of sessions.
    ///
    /// - Parameters:
    ///   - maximumKept: The most sessions at a time that are not clean.
    ///   - expiry: How long they are kept after their connection has ended.
    ///   - queuedMessages: The most messages in the outbox of each session.
    ///   - queuedBytes: The most bytes in the outbox of each session.
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

    /// Returns the session of an accepted client, and whether it existed before. If there are too many, the session
    /// that has been without a connection longest is deleted first. Returns `nil` if all sessions have connections.
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

    /// Records that the connection of a session has ended. Another connection must not have taken the session over.
    package func left(_ session: MQTTSession, now: Instant) {
        guard kept[session.name]?.session === session else { return }
        lastLeft += 1
        kept[session.name]?.left = lastLeft
        // Only the last end of each session counts, so at most one for each session is left after the cleanup. The next
        // cleanup runs after as many more ends.
        if leaves.count > Self.fewLeaves + 2 * kept.count {
            leaves = leaves[firstLeave...].filter(isAway)
            firstLeave = 0
        }
        leaves.append(Leave(key: session.name, number: lastLeft, expiry: now.advanced(by: expiry)))
    }

    /// How many ends of connections are stored.
    package var leaveCount: Int { leaves.count }

    // MARK: Forgetting

    /// Deletes the sessions that have been without a connection for too long.
    package func expire(_ now: Instant) {
        while firstLeave < leaves.count, leaves[firstLeave].expiry <= now {
            if isAway(leaves[firstLeave]) { forget(leaves[firstLeave].key) }
            firstLeave += 1
        }
    }

    /// Deletes the session without a connection that buffers most. Returns `false` if none of them buffers anything.
    /// The cost grows with the number of sessions.
    package func forgetLargest() -> Bool {
        var most: (key: [UInt8], bytes: Int)?
        for (key, entry) in kept where entry.left != nil && entry.session.bufferedBytes > most?.bytes ?? 0 {
            most = (key, entry.session.bufferedBytes)
        }
        guard let most else { return false }
        forget(most.key)
        return true
    }

    /// The session that has been without a connection longest.
    private var oldestAway: Leave? {
        while firstLeave < leaves.count {
            if isAway(leaves[firstLeave]) { return leaves[firstLeave] }
            firstLeave += 1
        }
        return nil
    }

    /// Whether the session has had no connection since this end.
    private func isAway(_ leave: Leave) -> Bool { kept[leave.key]?.left == leave.number }

    private func forget(_ key: [UInt8]) {
        if let former = kept.removeValue(forKey: key) { forgotten.append(former.session.id) }
    }

    /// Returns the numbers of the sessions that have ended since the last call.
    package func takeForgotten() -> [UInt64] {
        guard !forgotten.isEmpty else { return [] }
        defer { forgotten = [] }
        return forgotten
    }
}
