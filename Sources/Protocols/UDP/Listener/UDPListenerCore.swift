import TransportAPI

/// The accepting side of UDP without I/O. It examines each datagram that arrives, and returns a decision.
///
/// Nothing is stored for a client until it has returned the cookie that was sent to its address. So forged addresses
/// cost no memory. Until then no answer is larger than the datagram that caused it, so there is no amplification. From
/// then on the random connection id alone identifies the session, whatever its address.
package struct UDPListenerCore: Sendable {
    /// The action that a datagram requires.
    package enum Decision: Sendable {
        /// Send the content of `reply` to the address of the datagram. The reason is set if the answer is a refusal.
        case reply(DropReason?)
        /// A client has opened a session. Start this core, then pass it the datagram.
        indirect case accept(UDPCore)
        /// Pass the datagram to the core of the session with this connection id.
        case session(UInt64)
        /// Drop the datagram without an answer.
        case drop(DropReason)
    }

    /// The reason why a datagram was dropped or its sender was refused.
    package enum DropReason: Sendable, Hashable, CaseIterable {
        /// It does not have this package's format, or it is not one that a client sends.
        case malformed
        /// It is a handshake of DTLS, which this listener does not speak.
        case encrypted
        /// It belongs to no session.
        case unknownSession
        /// It requests a session with a cookie that is forged or too old.
        case wrongCookie
        /// It requests a session that has ended already.
        case ended
        /// It requests the reliable mode, which is off here, or its terms are invalid.
        case unreliable
        /// There is no room for another session.
        case full
        /// There are too many sessions from its network.
        case crowded
        /// Too many sessions wait to be accepted.
        case backlog
        /// More datagrams arrive than can be processed.
        case overload
    }

    private let configuration: UDPConfiguration
    private var cookies: UDPCookies
    private var live: SessionTable
    /// The live session of each attempt, for a confirm that is repeated because the accept was lost.
    private var sessions: [UInt64: UInt64] = [:]
    private var spent: UsedCookies
    /// Whether the caller can accept another session. If not, the server refuses clients as if it were full.
    package var hasRoom = true

    /// Creates a listener without sessions. Its secret keys come from `random`, which must be a cryptographic source.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
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

    /// The longest datagram that the configuration allows, in bytes.
    package var largestDatagram: Int { configuration.largestDatagram }
    /// The most bytes that all sessions buffer together.
    package var maximumHeld: Int { configuration.maximumHeld }
    /// Whether datagrams contain the message and nothing else.
    package var isPlain: Bool { configuration.isPlain }

    /// How many sessions are live.
    package var sessionCount: Int { live.count }

    /// Decides on `datagram`, and does not change it.
    ///
    /// - Parameters:
    ///   - datagram: The datagram that has arrived.
    ///   - address: The sender's address and port, as bytes in any form that is the same each time.
    ///   - network: Identifies the owner of the address, such as a hash of its network; by default the same for all.
    ///   - now: The present time.
    ///   - random: The source of connection ids and keys.
    ///   - reply: Is emptied, and filled if the decision is ``Decision/reply(_:)``.
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
            guard DTLSRecord(datagram)?.isHandshake == true else { return .drop(.malformed) }
            DTLSRecord.appendAlert(to: &reply)
            return .reply(.encrypted)
        }
        cookies.keepTime(now, &random)
        switch kind {
        case .data, .packet, .ping, .pong, .bye:
            if live.heard(identifier, now) { return .session(identifier) }
            // Only datagrams that a live client sends by itself are answered, and the answer is smaller. So two servers
            // that take each other for clients fall silent, and a forged address gets less than the sender has spent.
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

    /// Decides on `datagram` like the other method, with the address in an array.
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

    /// The session to end and to pass to ``remove(_:now:)``, so that a client that was refused finds room. `nil` if
    /// none has been silent for a second.
    ///
    /// In plain mode it is a session from which a single datagram has arrived. With forged addresses an untrusted peer
    /// can open any number of these, but it cannot end the others.
    package func mostSilent(_ now: Instant) -> UInt64? {
        live.mostSilent(now, onlyMute: configuration.isPlain)
    }

    /// Removes a session that has ended.
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
            // The cookie is forged, too old, or from before a restart. An honest client continues with a new one.
            Datagram.append(.retry, nonce, cookies.cookie(nonce, address), to: &reply)
            return .reply(.wrongCookie)
        }
        let isReliable = datagram.byte(at: Datagram.pairSize) != ReliableTerms.none
        let request = isReliable ? ReliableTerms(datagram, at: Datagram.pairSize) : nil
        guard !isReliable || configuration.acceptsReliable && request != nil else {
            Datagram.append(.refusal, nonce, to: &reply)
            return .reply(.unreliable)
        }
        let network = network()
        if let reason = lackOfRoom(for: network) {
            Datagram.append(.busy, nonce, to: &reply)
            return .reply(reason)
        }
        let identifier = random.next()
        // A collision is practically impossible. The client would repeat its confirm.
        guard !live.contains(identifier) else { return .drop(.full) }
        live.insert(identifier, attempt: attempt, network: network, now)
        sessions[attempt] = identifier
        return .accept(UDPCore(.server, configuration, connectionID: identifier, nonce: nonce, request: request))
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
