import TransportAPI

/// The sessions of a broker: a fresh one for each client that asks for a clean session, and for the others the one that
/// they left behind (MQTT 3.1.1, section 3.1.2.4). Kept in memory, and at most so many.
package final class MQTTSessions: @unchecked Sendable {
    // Unchecked, because it is only ever touched on the loop on which all links of its broker live.

    private struct Kept {
        let session: MQTTSession
        /// When its link ended, as a count of such ends; `nil` while it has a link.
        var left: UInt64?
    }

    private let maximumKept: Int
    /// What each session begins with.
    private let outbox: MQTTOutbox
    /// Keys are bytes, because two client identifiers that Swift holds for equal may differ on the wire.
    private var kept: [[UInt8]: Kept] = [:]
    private var lastID: UInt64 = 0
    private var lastLeft: UInt64 = 0
    private var forgotten: [UInt64] = []

    /// No sessions yet; of those that are not clean, at most `maximumKept` at a time. Each begins with this outbox.
    package init(maximumKept: Int = 1000, outbox: MQTTOutbox = MQTTOutbox()) {
        self.maximumKept = maximumKept
        self.outbox = outbox
    }

    /// The session of a client that was let in, and whether it was there before; `nil` if there are too many and all of
    /// them have links. Where there are too many otherwise, who has been away longest is forgotten.
    func open(_ connect: MQTTConnect) -> (session: MQTTSession, isPresent: Bool)? {
        let key = Array(connect.clientID.utf8)
        if connect.cleanSession {
            if let former = kept.removeValue(forKey: key) { forgotten.append(former.session.id) }
            return (fresh(isClean: true), false)
        }
        if let former = kept[key] {
            kept[key]?.left = nil
            return (former.session, true)
        }
        if kept.count >= maximumKept {
            let away = kept.filter { $0.value.left != nil }
            guard let oldest = away.min(by: { $0.value.left ?? 0 < $1.value.left ?? 0 }) else { return nil }
            kept[oldest.key] = nil
            forgotten.append(oldest.value.session.id)
        }
        let session = fresh(isClean: false)
        kept[key] = Kept(session: session)
        return (session, false)
    }

    private func fresh(isClean: Bool) -> MQTTSession {
        lastID += 1
        return MQTTSession(id: lastID, isClean: isClean, outbox: outbox)
    }

    /// The link of this client's session has ended, and no other has taken it over.
    package func left(_ clientID: String) {
        lastLeft += 1
        kept[Array(clientID.utf8)]?.left = lastLeft
    }

    /// The session of this identifier, if it is one that outlives its links.
    package func kept(_ clientID: String) -> MQTTSession? { kept[Array(clientID.utf8)]?.session }

    /// The sessions that have ended since this was asked last, by their numbers.
    package func takeForgotten() -> [UInt64] {
        defer { forgotten = [] }
        return forgotten
    }
}
