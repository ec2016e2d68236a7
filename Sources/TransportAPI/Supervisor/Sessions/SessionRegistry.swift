/// Finds the session that a client's first frame belongs to.
package struct SessionRegistry<Session> {
    /// The result of a hello.
    package enum Decision {
        /// The client resumes its session.
        case resume(Session)
        /// There is no session. The caller makes one and adds it with ``insert(_:_:)``.
        case begin
        /// The caller ends this session, which the client no longer refers to, and then acts as for ``begin``.
        case replace(Session)
        /// The server already has its maximum number of sessions.
        case refuse(SessionFrame.Refusal)
    }

    /// The maximum number of sessions at a time.
    package let capacity: Int
    package private(set) var sessions: [SessionID: Session] = [:]

    package init(capacity: Int) {
        self.capacity = capacity
    }

    /// Returns the decision about a client's hello.
    /// - Parameter isMeant: Whether the client's hello refers to this session of the client.
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
