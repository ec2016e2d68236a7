/// What a hostile client does.
enum HostileKind: String, Sendable, Hashable, CaseIterable {
    case slowHeaders = "slow-headers"
    case halfOpen = "half-open"
    case neverReading = "never-reading"
    case giantLength = "giant-length"
    case pingFlood = "ping-flood"
    case fragmentFlood = "fragment-flood"
    case compressionBomb = "compression-bomb"
    /// The same filter again and again.
    case subscriptionFlood = "subscription-flood"
    /// Ever other filters, of many levels, half of them with wildcards.
    case filterFlood = "filter-flood"
    /// Most subscribe, at QoS 0 or 1, to what the others publish, and read nothing of it.
    case slowSubscriber = "slow-subscriber"
    /// All have the same client identifier, and a will.
    case takeoverFlood = "takeover-flood"
    /// The same message of QoS 2 again and again.
    case identifierReuse = "identifier-reuse"
    /// Ever other messages of QoS 2, none of which is released.
    case unreleasedFlood = "unreleased-flood"
    /// Releases messages that nobody has sent.
    case releaseFlood = "release-flood"
    case messageFlood = "message-flood"
    /// Writes very much into a chat room.
    case roomFlood = "room-flood"
    /// Begins sessions in a chat room and leaves them, nine for each client, and then writes very much.
    case zombieSessions = "zombie-sessions"
    /// Writes texts into a chat room whose normalisation takes very long, as keys.
    case hostileText = "hostile-text"
    /// Begins session after session, and comes back to none.
    case sessionSquatting = "session-squatting"
    /// Sends the second message of a session and those behind it, and never the first.
    case sessionHoarding = "session-hoarding"
    /// Asks for a WebSocket as a web page of another origin does.
    case foreignOrigin = "foreign-origin"
    /// Sends copies of what members of a conversation over a broker send, under their identifiers and with higher numbers.
    case poisonedIdentity = "poisoned-identity"
    case helloFlood = "hello-flood"
    /// Asks for sessions with cookies that no server has made.
    case forgedCookie = "forged-cookie"
    /// Opens session after session, each from another address, and leaves it after one message.
    case addressFlood = "address-flood"
    /// Speaks in a session from two addresses in turn, of which the second has proved nothing.
    case stolenSession = "stolen-session"
    case garbageFlood = "garbage-flood"
    case unknownSession = "unknown-session"
    /// Begins a reliable message that is larger than any may be.
    case giantTotal = "giant-total"
    /// Sends the beginning of each block of reliable messages, and the rest of none.
    case unfinishedFragments = "unfinished-fragments"
    /// Has its reliable messages come back, and acknowledges none.
    case neverAcknowledging = "never-acknowledging"

    /// Whether it is done to the sessions of a chat room, and not to a server's connections.
    var isOfSessions: Bool {
        switch self {
        case .roomFlood, .zombieSessions, .hostileText, .sessionSquatting, .sessionHoarding: true
        default: false
        }
    }
}
