import TransportAPI

/// Where a session's datagrams go, and whether that has proved that it receives them.
///
/// A session goes with its connection id from one address to another. Who has seen the id could name a victim's address as the
/// new one; so until a ping with a random token that was sent there is answered, no more than three times the bytes that came
/// from there go to it (RFC 9000, sections 8.1, 8.2 and 9.3), and if no answer comes the session returns to the last address
/// that gave one (section 9.3.2). Any client answers pings.
struct PathValidator<Address: Equatable & Sendable>: Sendable {
    /// How many bytes may be sent for each that came.
    static var amplification: Int { 3 }
    /// After so long without an answer, the next datagram from there or to there brings another ping.
    static var repetition: Duration { .milliseconds(200) }
    /// How long an address may take to prove itself.
    static var patience: Duration { .seconds(3) }

    /// Where datagrams go.
    private(set) var address: Address
    /// The last address that has proved itself, by the handshake or an answer.
    private var proved: Address
    /// The token of the ping; `nil` if the address has proved itself.
    private(set) var token: UInt64?
    private var received = 0
    private var sent = 0
    private var askAt = Instant.zero
    /// What was asked last, and where, so that a session that goes to and fro does not ask there each time.
    private var asked: (address: Address, token: UInt64)?
    private var giveUpAt = Instant.zero
    private var newestPacket: UInt64?
    private var newestMessage: UInt32?
    private var newestPing: UInt64?

    /// A session whose address the handshake has proved.
    init(_ address: Address) {
        self.address = address
        proved = address
    }

    var isValidated: Bool { token == nil }

    /// A datagram of the session came from `sender`. Gives the token of a ping to be sent to ``address`` now, if one is.
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
            giveUpAt = now.advanced(by: Self.patience)
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

    /// The token with which an address is asked: that of the last time if it was the same one, and then no sooner than it would
    /// be asked again anyway.
    private mutating func question(to sender: Address, _ now: Instant, _ random: inout RandomSource) -> UInt64 {
        if let asked, asked.address == sender { return asked.token }
        // Tokens begin with a bit that those of the session's own pings do not have.
        let token = random.next() | 1 << 63
        asked = (sender, token)
        askAt = now
        return token
    }

    /// The token of a ping to be sent to ``address`` now, if one is; to be asked whenever something is about to be sent.
    mutating func question(_ now: Instant) -> UInt64? {
        guard let token, askAt <= now, maySend(Datagram.pairSize, now), self.token != nil else { return nil }
        askAt = now.advanced(by: Self.repetition)
        return token
    }

    /// Whether a datagram of so many bytes may go to ``address``; counts it if so.
    mutating func maySend(_ bytes: Int, _ now: Instant) -> Bool {
        returnIfUnproved(now)
        guard token != nil else { return true }
        guard sent + bytes <= received * Self.amplification else { return false }
        sent += bytes
        return true
    }

    private mutating func returnIfUnproved(_ now: Instant) {
        guard token != nil, giveUpAt <= now else { return }
        address = proved
        token = nil
    }

    /// Whether the session goes where this datagram comes from: one that comes late, or again, says nothing of where the client
    /// is by now (RFC 9000, section 9.3); nor does one that a client does not send by itself.
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
