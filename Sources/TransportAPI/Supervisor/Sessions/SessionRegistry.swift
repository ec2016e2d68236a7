/// Which session a client's first frame belongs to.
package struct SessionRegistry<Session> {
    /// What a hello leads to.
    package enum Decision {
        /// The session of this client goes on.
        case resume(Session)
        /// There is none: one is to be made and noted with ``insert(_:_:)``.
        case begin
        /// As ``begin``, once this one has ended: the client means it no longer.
        case replace(Session)
        /// There are as many sessions as there may be.
        case refuse(SessionFrame.Refusal)
    }

    /// The most sessions at a time.
    package let capacity: Int
    package private(set) var sessions: [SessionID: Session] = [:]

    package init(capacity: Int) {
        self.capacity = capacity
    }

    /// - Parameter isMeant: whether the client's hello means this session of it.
    package func decide(_ client: SessionID, isMeant: (Session) -> Bool) -> Decision {
        if let session = sessions[client] { return isMeant(session) ? .resume(session) : .replace(session) }
        return sessions.count < capacity ? .begin : .refuse(.full)
    }

    package mutating func insert(_ client: SessionID, _ session: Session) {
        sessions[client] = session
    }

    package mutating func remove(_ client: SessionID) {
        sessions[client] = nil
    }
}
