import TransportAPI

/// The accepting side of UDP without I/O: it looks at each datagram that arrives and says what is to be done with it.
///
/// Nothing is remembered of a client until it has returned the cookie that was sent to its address, so forged addresses
/// cost no memory; and no answer to an address that has not done so is larger than what came from it, so they amplify
/// nothing. From then on a session is known by its random connection id alone, whatever address it comes from.
package struct UDPListenerCore: Sendable {
    /// What is to be done with a datagram.
    package enum Decision: Sendable {
        /// Send what was put into `reply` to the address from which the datagram came; with the reason if it says no.
        case reply(DropReason?)
        /// A client has got a session. Start this core, then hand it the datagram.
        indirect case accept(UDPCore)
        /// Hand the datagram to the core of the session with this connection id.
        case session(UInt64)
        /// Nothing.
        case drop(DropReason)
    }

    /// Why a datagram was dropped, or its sender turned away.
    package enum DropReason: Sendable, Hashable, CaseIterable {
        /// It is not one of ours, or not one that a client sends.
        case malformed
        /// It belongs to no session.
        case unknownSession
        /// It asks for a session with a cookie that is forged or too old.
        case wrongCookie
        /// It asks for a session that has ended already.
        case ended
        /// It asks for the reliable mode, which is off here, or on terms that make no sense.
        case unreliable
        /// There is no room for another session.
        case full
        /// There are too many sessions from its network.
        case crowded
        /// Too many sessions wait for somebody to accept them.
        case backlog
        /// More comes than can be worked off.
        case overload
    }

    private let configuration: UDPConfiguration
    private var cookies: UDPCookies
    private var live: SessionTable
    /// The live session of each attempt, for confirms that are repeated because the accept was lost.
    private var sessions: [UInt64: UInt64] = [:]
    private var spent: UsedCookies
    /// Whether who accepts has room for another session; if not, clients are told that the server is full.
    package var hasRoom = true

    /// A listener with no sessions and fresh secret keys from `random`, which must be a cryptographic source.
    ///
    /// - Throws: `.invalidConfiguration`.
    package init(
        _ configuration: UDPConfiguration = UDPConfiguration(),
        random: inout RandomSource
    ) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        cookies = UDPCookies(&random)
        spent = UsedCookies(limit: configuration.maximumSessions)
        live = SessionTable(limit: configuration.maximumSessions)
    }

    package var largestDatagram: Int { configuration.largestDatagram }
    package var maximumHeld: Int { configuration.maximumHeld }
    package var isPlain: Bool { configuration.isPlain }

    /// How many sessions are live.
    package var sessionCount: Int { live.count }

    /// Says what is to be done with `datagram`, which it leaves as it is.
    ///
    /// - Parameters:
    ///   - address: the sender's address and port, as bytes in any form that is the same each time.
    ///   - network: tells senders of different owners apart, such as a hash of their networks; the same for all by default.
    ///   - reply: emptied, and filled if the decision is ``Decision/reply(_:)``.
    package mutating func receive(
        _ datagram: borrowing ByteBuffer,
        from address: UnsafeRawBufferPointer,
        network: @autoclosure () -> Int = 0,
        now: Instant,
        random: inout RandomSource,
        reply: inout ByteBuffer
    ) -> Decision {
        reply.removeAll()
        guard !configuration.isPlain else { return plain(datagram, from: address, network, now) }
        guard let kind = Datagram.kind(of: datagram), let identifier = Datagram.identifier(of: datagram) else {
            return .drop(.malformed)
        }
        cookies.keepTime(now, &random)
        switch kind {
        case .data, .packet, .ping, .pong, .bye:
            if live.heard(identifier, now) { return .session(identifier) }
            // Only what a live client sends by itself is answered, with less than it sent: two servers that take each
            // other for clients fall silent, and a forged address gets less than was spent on it.
            guard kind == .data || kind == .packet || kind == .ping else { return .drop(.unknownSession) }
            Datagram.append(.gone, identifier, to: &reply)
            return .reply(.unknownSession)
        case .hello:
            Datagram.append(.retry, identifier, cookies.cookie(identifier, address), to: &reply)
            return .reply(nil)
        case .confirm:
            return confirm(datagram, nonce: identifier, from: address, network, now, &random, &reply)
        case .retry, .accept, .welcome, .refusal, .gone, .busy:
            return .drop(.malformed)
        }
    }

    /// As above, with the address in an array.
    package mutating func receive(
        _ datagram: borrowing ByteBuffer,
        from address: [UInt8],
        network: Int = 0,
        now: Instant,
        random: inout RandomSource,
        reply: inout ByteBuffer
    ) -> Decision {
        address.withUnsafeBytes {
            receive(datagram, from: $0, network: network, now: now, random: &random, reply: &reply)
        }
    }

    /// The session that is to be ended, and removed, so that a newcomer who was told that there is no room has some; `nil` if
    /// none has been silent for so long as a second. Of plain sessions only one that has brought a single datagram: with forged
    /// addresses anybody can open as many of those as he likes, but not make others fall silent.
    package func mostSilent(_ now: Instant) -> UInt64? {
        live.mostSilent(now, onlyMute: configuration.isPlain)
    }

    /// Forgets a session that has ended.
    package mutating func remove(_ connectionID: UInt64, now: Instant) {
        guard let attempt = live.remove(connectionID), !configuration.isPlain else { return }
        sessions.removeValue(forKey: attempt)
        spent.forgetExpired(now: now)
        spent.insert(attempt, now: now)
    }

    private mutating func confirm(
        _ datagram: borrowing ByteBuffer,
        nonce: UInt64,
        from address: UnsafeRawBufferPointer,
        _ network: () -> Int,
        _ now: Instant,
        _ random: inout RandomSource,
        _ reply: inout ByteBuffer
    ) -> Decision {
        let attempt = cookies.attempt(nonce, address)
        if let session = sessions[attempt] { return .session(session) }
        spent.forgetExpired(now: now)
        guard !spent.contains(attempt) else { return .drop(.ended) }
        guard let cookie = Datagram.number(of: datagram), cookies.isValid(cookie, nonce, address) else {
            // Forged, too old, or from before a restart: an honest client goes on with a fresh one.
            Datagram.append(.retry, nonce, cookies.cookie(nonce, address), to: &reply)
            return .reply(.wrongCookie)
        }
        let isReliable = datagram.byte(at: Datagram.pairSize) != ReliableTerms.none
        let wish = isReliable ? ReliableTerms(datagram, at: Datagram.pairSize) : nil
        guard !isReliable || configuration.acceptsReliable && wish != nil else {
            Datagram.append(.refusal, nonce, to: &reply)
            return .reply(.unreliable)
        }
        let network = network()
        if let reason = lackOfRoom(for: network) {
            Datagram.append(.busy, nonce, to: &reply)
            return .reply(reason)
        }
        let identifier = random.next()
        // A collision is as good as impossible; the client asks again.
        guard !live.contains(identifier) else { return .drop(.full) }
        live.insert(identifier, attempt: attempt, network: network, now)
        sessions[attempt] = identifier
        return .accept(UDPCore(.server, configuration, connectionID: identifier, nonce: nonce, wish: wish))
    }

    private mutating func plain(
        _ datagram: borrowing ByteBuffer,
        from address: UnsafeRawBufferPointer,
        _ network: () -> Int,
        _ now: Instant
    ) -> Decision {
        guard !datagram.isEmpty else { return .drop(.malformed) }
        let identifier = cookies.session(of: address)
        guard !live.heard(identifier, now) else { return .session(identifier) }
        let network = network()
        if let reason = lackOfRoom(for: network) { return .drop(reason) }
        live.insert(identifier, attempt: identifier, network: network, now)
        return .accept(UDPCore(.server, configuration, connectionID: identifier, nonce: 0))
    }

    private func lackOfRoom(for network: Int) -> DropReason? {
        guard hasRoom else { return .backlog }
        if let most = configuration.maximumPerAddress, live.count(of: network) >= most { return .crowded }
        return live.count < configuration.maximumSessions ? nil : .full
    }
}
