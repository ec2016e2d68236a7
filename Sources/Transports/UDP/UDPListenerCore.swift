import TransportAPI

/// The accepting side of UDP without I/O: it looks at each datagram that arrives and says what is to be done with it.
///
/// Nothing is remembered of a client until it has returned the cookie that was sent to its address, so forged addresses
/// cost no memory; and no answer to an address that has not done so is larger than what came from it, so they amplify
/// nothing. From then on a session is known by its random connection id alone, whatever address it comes from.
public struct UDPListenerCore: Sendable {
    /// What is to be done with a datagram.
    public enum Decision: Sendable {
        /// Send what was put into `reply` to the address from which the datagram came.
        case reply
        /// A client has got a session. Start this core, then hand it the datagram.
        case accept(UDPCore)
        /// Hand the datagram to the core of the session with this connection id.
        case session(UInt64)
        /// Nothing.
        case drop(DropReason)
    }

    /// Why a datagram was dropped.
    public enum DropReason: Sendable, Hashable, CaseIterable {
        /// It is not one of ours, or not one that a client sends.
        case malformed
        /// It belongs to no session, and must not be answered.
        case unknownSession
        /// It asks for a session that has ended already.
        case ended
        /// There is no room for another session.
        case full
    }

    private let configuration: UDPConfiguration
    private var cookies: UDPCookies
    /// The attempt behind each live session.
    private var attempts: [UInt64: UInt64] = [:]
    /// The live session of each attempt, for confirms that are repeated because the accept was lost.
    private var sessions: [UInt64: UInt64] = [:]
    private var spent: SpentAttempts
    /// Whether who accepts has room for another session; if not, clients are told that the server is full.
    var hasRoom = true

    /// A listener with no sessions and fresh secret keys from `random`, which must be a cryptographic source.
    ///
    /// - Throws: `.invalidConfiguration`.
    public init(
        _ configuration: UDPConfiguration = UDPConfiguration(),
        random: inout RandomSource
    ) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        cookies = UDPCookies(&random)
        spent = SpentAttempts(limit: configuration.maximumSessions)
    }

    var largestDatagram: Int { configuration.largestDatagram }
    var maximumHeld: Int { configuration.maximumHeld }

    /// How many sessions are live.
    public var sessionCount: Int { attempts.count }

    /// Says what is to be done with `datagram`, which it leaves as it is.
    ///
    /// - Parameters:
    ///   - address: the sender's address and port, as bytes in any form that is the same each time.
    ///   - reply: emptied, and filled if the decision is ``Decision/reply``.
    public mutating func receive(
        _ datagram: borrowing ByteBuffer,
        from address: UnsafeRawBufferPointer,
        now: Instant,
        random: inout RandomSource,
        reply: inout ByteBuffer
    ) -> Decision {
        reply.removeAll()
        guard !configuration.isPlain else { return plain(datagram, from: address) }
        guard let kind = Datagram.kind(of: datagram), let identifier = Datagram.identifier(of: datagram) else {
            return .drop(.malformed)
        }
        cookies.keepTime(now, &random)
        switch kind {
        case .data, .packet, .ping, .pong, .bye:
            if attempts[identifier] != nil { return .session(identifier) }
            // Only what a live client sends by itself is answered, with less than it sent: two servers that take each
            // other for clients fall silent, and a forged address gets less than was spent on it.
            guard kind == .data || kind == .packet || kind == .ping else { return .drop(.unknownSession) }
            Datagram.append(.gone, identifier, to: &reply)
            return .reply
        case .hello:
            Datagram.append(.retry, identifier, cookies.cookie(identifier, address), to: &reply)
            return .reply
        case .confirm:
            return confirm(datagram, nonce: identifier, from: address, now: now, random: &random, reply: &reply)
        case .retry, .accept, .welcome, .refusal, .gone, .busy:
            return .drop(.malformed)
        }
    }

    /// As above, with the address in an array.
    public mutating func receive(
        _ datagram: borrowing ByteBuffer,
        from address: [UInt8],
        now: Instant,
        random: inout RandomSource,
        reply: inout ByteBuffer
    ) -> Decision {
        address.withUnsafeBytes { receive(datagram, from: $0, now: now, random: &random, reply: &reply) }
    }

    /// Forgets a session that has ended.
    public mutating func remove(_ connectionID: UInt64, now: Instant) {
        guard let attempt = attempts.removeValue(forKey: connectionID), !configuration.isPlain else { return }
        sessions.removeValue(forKey: attempt)
        spent.forgetExpired(now: now)
        spent.insert(attempt, now: now)
    }

    private mutating func confirm(
        _ datagram: borrowing ByteBuffer,
        nonce: UInt64,
        from address: UnsafeRawBufferPointer,
        now: Instant,
        random: inout RandomSource,
        reply: inout ByteBuffer
    ) -> Decision {
        let attempt = cookies.attempt(nonce, address)
        if let session = sessions[attempt] { return .session(session) }
        spent.forgetExpired(now: now)
        guard !spent.contains(attempt) else { return .drop(.ended) }
        guard let cookie = Datagram.number(of: datagram), cookies.isValid(cookie, nonce, address) else {
            // Forged, too old, or from before a restart: an honest client goes on with a fresh one.
            Datagram.append(.retry, nonce, cookies.cookie(nonce, address), to: &reply)
            return .reply
        }
        let isReliable = datagram.byte(at: Datagram.pairSize) != ReliableTerms.none
        let wish = isReliable ? ReliableTerms(datagram, at: Datagram.pairSize) : nil
        guard !isReliable || configuration.acceptsReliable && wish != nil else {
            Datagram.append(.refusal, nonce, to: &reply)
            return .reply
        }
        guard hasRoom, attempts.count < configuration.maximumSessions else {
            Datagram.append(.busy, nonce, to: &reply)
            return .reply
        }
        let identifier = random.next()
        // A collision is as good as impossible; the client asks again.
        guard attempts[identifier] == nil else { return .drop(.full) }
        attempts[identifier] = attempt
        sessions[attempt] = identifier
        return .accept(UDPCore(.server, configuration, connectionID: identifier, nonce: nonce, wish: wish))
    }

    private mutating func plain(_ datagram: borrowing ByteBuffer, from address: UnsafeRawBufferPointer) -> Decision {
        guard !datagram.isEmpty else { return .drop(.malformed) }
        let identifier = cookies.session(of: address)
        guard attempts[identifier] == nil else { return .session(identifier) }
        guard hasRoom, attempts.count < configuration.maximumSessions else { return .drop(.full) }
        attempts[identifier] = identifier
        return .accept(UDPCore(.server, configuration, connectionID: identifier, nonce: 0))
    }
}
