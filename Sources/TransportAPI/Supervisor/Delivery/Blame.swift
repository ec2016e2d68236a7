/// Finds the message that a peer refuses by ending its connections, so that it does not block those behind it.
///
/// A message is set aside only on evidence. Most connections end for reasons that have nothing to do with a message, and
/// no number of them sets one aside.
///
/// - If the peer has named a cause that fits a message, the messages that were in flight are sent again one at a time. A
///   message that was alone in flight at two such endings is the one.
/// - If the peer has ended the connection without a reason, a message counts only if it was alone in flight and the peer
///   has acknowledged earlier ones. After five such endings in a row it is probably the one. If several messages were in
///   flight at two endings, and none of them was acknowledged in between, they are sent one at a time from then on.
package struct Blame: Sendable {
    /// The conclusion from the end of a connection about the messages in flight.
    package enum Evidence: Sendable, Hashable {
        /// The peer has named a cause that fits a message: it is too large, or its contents were not accepted.
        case named(TransportError)
        /// The peer has ended the connection without a reason.
        case unexplained(TransportError)
        /// The end has nothing to do with a message: a timeout, a missing answer to a probe, another network, a restart
        /// or overload of the peer, or this side.
        case none
    }

    /// A message that was alone in flight.
    private struct Suspect: Sendable {
        var id: MessageID
        /// The number of endings with a cause that fits a message.
        var named = 0
        /// The number of endings without a reason, in a row.
        var unexplained = 0
    }

    /// The number of endings with a cause that fits a message, after which the message that was alone in flight is set
    /// aside.
    package static let namedLimit = 2
    /// The number of endings without a reason, in a row, after which the message that was alone in flight is set aside.
    package static let unexplainedLimit = 5
    /// The number of endings without a reason, and without an acknowledgement in between, after which messages are sent
    /// one at a time.
    static let crowdLimit = 2

    /// The last message that may be the one. Until it and all before it have ended, messages are sent one at a time.
    private var last: MessageID?
    private var suspect: Suspect?
    /// The oldest of several messages in flight at an ending without a reason, and the number of such endings.
    private var crowd: (first: MessageID, count: Int)?
    /// Whether the peer has acknowledged a message of the session. A peer that never has may not work at all.
    private(set) var hasAcknowledged = false
    /// Whether the network has changed since the connection opened.
    private var hasMoved = false

    package init() {}

    /// Records that the peer has acknowledged a message.
    package mutating func acknowledged() {
        if !hasAcknowledged { hasAcknowledged = true }
    }

    /// Records that the peer has forgotten the session, and with it the messages that it acknowledged.
    package mutating func forgotten() {
        hasAcknowledged = false
    }

    /// Records that a connection is open.
    package mutating func opened() {
        hasMoved = false
    }

    /// Records that the network has changed. The end of the open connection says nothing about its messages from then on.
    package mutating func moved() {
        hasMoved = true
    }

    /// Whether messages are sent one at a time.
    var isSearching: Bool { last != nil }

    /// Returns how many messages may be in flight, given the oldest message that has not ended.
    package mutating func window(_ most: Int, oldest: MessageID?) -> Int {
        guard let last else { return most }
        if let oldest, oldest <= last { return 1 }
        self.last = nil
        return most
    }

    /// Records the end of a connection. Returns the outcome of the message that was alone in flight, if it is to be set
    /// aside.
    ///
    /// - Parameters:
    ///   - evidence: The conclusion from the end about the messages in flight.
    ///   - inFlight: The messages in flight, the oldest first.
    package mutating func ended(_ evidence: Evidence, inFlight: some Collection<MessageID>) -> SendOutcome? {
        guard let first = inFlight.first else { return nil }
        let isAlone = inFlight.dropFirst().isEmpty
        if isAlone, suspect?.id != first { suspect = Suspect(id: first) }
        switch hasMoved ? .none : evidence {
        case .none:
            // Endings without a reason count only if nothing else has ended a connection in between.
            suspect?.unexplained = 0
            crowd = nil
        case .named(let error):
            guard isAlone else {
                last = max(last ?? first, inFlight.reduce(first, max))
                return nil
            }
            suspect?.named += 1
            if let count = suspect?.named, count >= Self.namedLimit { return setAside(.rejected(error)) }
            last = max(last ?? first, first)
        case .unexplained(let error):
            guard isAlone else {
                crowd = (first, crowd?.first == first ? (crowd?.count ?? 0) + 1 : 1)
                if let count = crowd?.count, count >= Self.crowdLimit {
                    last = max(last ?? first, inFlight.reduce(first, max))
                }
                return nil
            }
            guard hasAcknowledged else { return nil }
            suspect?.unexplained += 1
            last = max(last ?? first, first)
            guard let count = suspect?.unexplained, count >= Self.unexplainedLimit else { return nil }
            let sentence =
                "the peer ended \(count) connections in a row, each time while it had only this message to acknowledge"
            return setAside(.unknown(TransportError(error.code, .open, "\(sentence): \(error.reason)")))
        }
        return nil
    }

    private mutating func setAside(_ outcome: SendOutcome) -> SendOutcome {
        suspect = nil
        return outcome
    }
}

extension Blame.Evidence {
    /// The conclusion from the reason of an ended connection. Only a connection that was open, in a session after the
    /// welcome, can have refused a message.
    package init(_ reason: CloseReason) {
        let error = reason.asError
        guard error.phase == .open else {
            self = .none
            return
        }
        switch (error.code, error.detail) {
        // The close codes 1003, 1007 and 1009 (RFC 6455, section 7.4.1).
        case (.unsupported, 1003?), (.invalidText, 1007?), (.messageTooLarge, 1009?):
            self = reason.initiator == .peer ? .named(error) : .none
        case (.protocolViolation, nil) where error == SessionFrame.Refusal.broken.error: self = .named(error)
        // A FIN, or a close frame without a code (1005 stands for that), but not the frame that ends a session.
        case (.closedByPeer, nil) where reason.error == nil: self = .unexplained(error)
        case (.closedByPeer, 1005?), (.connectionLost, nil), (.connectionLost, 1006?): self = .unexplained(error)
        // A FIN without the end of TLS. Any other number is an errno: this system has given the connection up, for instance
        // because the peer has acknowledged no packet.
        case (.connectionLost, _) where error.tlsProblem == .truncated: self = .unexplained(error)
        // A reset by the system. Without an errno, a server of datagrams has been restarted and has forgotten the connection.
        case (.connectionReset, _?): self = .unexplained(error)
        // The peer has failed, for a reason that it does not know.
        case (.serverUnavailable, 1011?): self = .unexplained(error)
        default: self = .none
        }
    }

    /// Whether the peer has refused a message, and not this client.
    var namesMessage: Bool {
        if case .named = self { true } else { false }
    }
}
