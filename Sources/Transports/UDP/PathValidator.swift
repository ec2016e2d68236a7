import TransportAPI

/// The address to which a session's datagrams are sent, and whether the peer there has proved that it receives them.
///
/// A session moves with its connection id from one address to another. An attacker that has seen the id could name a
/// victim's address as the new one. So a ping with a random token is sent to a new address. Until it is answered, at
/// most three times the bytes that came from there are sent there (RFC 9000, sections 8.1, 8.2 and 9.3). Without an
/// answer, the session returns to the last address that has answered (section 9.3.2). Any client answers pings.
struct PathValidator<Address: Equatable & Sendable>: Sendable {
    /// The number of bytes that may be sent for each byte that was received.
    static var amplification: Int { 3 }
    /// The time without an answer after which the next datagram in either direction causes another ping.
    static var repetition: Duration { .milliseconds(200) }
    /// The time limit for the validation of an address.
    static var validationTimeout: Duration { .seconds(3) }

    /// The address to which datagrams are sent.
    private(set) var address: Address
    /// The last address that was validated, by the handshake or by an answer.
    private var proved: Address
    /// The token of the ping, or `nil` if the address is validated.
    private(set) var token: UInt64?
    private var received = 0
    private var sent = 0
    private var askAt = Instant.zero
    /// The last ping and its address, so that a session that alternates between addresses does not cause a new ping
    /// each time.
    private var asked: (address: Address, token: UInt64)?
    private var giveUpAt = Instant.zero
    private var newestPacket: UInt64?
    private var newestMessage: UInt32?
    private var newestPing: UInt64?

    /// Creates the validator of a session whose address the handshake has validated.
    init(_ address: Address) {
        self.address = address
        proved = address
    }

    var isValidated: Bool { token == nil }

    /// Handles a datagram of the session from `sender`. Returns the token of a ping that must be sent to ``address``
    /// now, if there is one.
    mutating func heard(
        _ datagram: borrowing ByteBuffer,
        from sender: Address,
        _ now: Instant,
        _ random: inout RandomSource
    ) -> UInt64? {
        let kind = Datagram.kind(of: datagram)
        let moves = moves(datagram, kind)
        returnIfUnproved(now)
        if sender != address, moves {
            address = sender
            token = sender == proved ? nil : question(to: sender, now, &random)
            (received, sent) = (0, 0)
            giveUpAt = now.advanced(by: Self.validationTimeout)
        }
        guard let token, sender == address else { return nil }
        guard kind != .pong || Datagram.number(of: datagram) != token else {
            self.token = nil
            asked = nil
            proved = sender
            return nil
        }
        received += datagram.count
        return question(now)
    }

    /// Returns the token for a ping to an address. If the address is that of the last ping, the token is the same, and
    /// the ping is not sent before its repetition is due.
    private mutating func question(to sender: Address, _ now: Instant, _ random: inout RandomSource) -> UInt64 {
        if let asked, asked.address == sender { return asked.token }
        // Tokens begin with a bit that those of the session's own pings do not have.
        let token = random.next() | 1 << 63
        asked = (sender, token)
        askAt = now
        return token
    }

    /// Returns the token of a ping that must be sent to ``address`` now, if there is one. Call this whenever a datagram
    /// is about to be sent.
    mutating func question(_ now: Instant) -> UInt64? {
        guard let token, askAt <= now, maySend(Datagram.pairSize, now), self.token != nil else { return nil }
        askAt = now.advanced(by: Self.repetition)
        return token
    }

    /// Returns whether a datagram of this many bytes may be sent to ``address``. Call ``sent(_:)`` when it was.
    mutating func maySend(_ bytes: Int, _ now: Instant) -> Bool {
        returnIfUnproved(now)
        return token == nil || sent + bytes <= received * Self.amplification
    }

    /// Counts a datagram that the socket has taken. One that it has not taken is offered again.
    mutating func sent(_ bytes: Int) {
        if token != nil { sent += bytes }
    }

    private mutating func returnIfUnproved(_ now: Instant) {
        guard token != nil, giveUpAt <= now else { return }
        address = proved
        token = nil
    }

    /// Returns whether the session moves to the source of this datagram. A late or repeated datagram does not show the
    /// client's current address (RFC 9000, section 9.3). The same is true for a datagram that a client does not send on
    /// its own.
    private mutating func moves(_ datagram: borrowing ByteBuffer, _ kind: Datagram.Kind?) -> Bool {
        switch kind {
        case .packet:
            guard let number = Datagram.number(of: datagram), newestPacket.map({ $0 < number }) ?? true else {
                return false
            }
            newestPacket = number
            return true
        case .data:
            guard let number = datagram.integer(at: Datagram.identifiedSize, as: UInt32.self),
                newestMessage.map({ Int32(bitPattern: number &- $0) > 0 }) ?? true
            else { return false }
            newestMessage = number
            return true
        case .ping:
            guard let token = Datagram.number(of: datagram), newestPing.map({ $0 < token }) ?? true else {
                return false
            }
            newestPing = token
            return true
        default: return false
        }
    }
}
