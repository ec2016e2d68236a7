import TransportAPI

/// Whether a session's present address has proved that it receives what is sent there.
///
/// A session goes with its connection id from one address to another. Who has seen the id could name a victim's address as the
/// new one; so until a ping with a random token that was sent there is answered, no more than three times the bytes that came
/// from there go to it (RFC 9000, sections 8.1, 8.2 and 9.3). Any client answers pings.
struct PathValidation: Sendable {
    /// How many bytes may be sent for each that came.
    static let amplification = 3
    /// After so long without an answer, the next datagram from there draws another ping.
    static let repetition = Duration.milliseconds(200)

    /// The token of the ping; `nil` if the address has proved itself.
    private(set) var token: UInt64?
    private var received = 0
    private var sent = 0
    private var askAt = Instant.zero

    /// A session whose address the handshake has proved.
    init() {}

    var isValidated: Bool { token == nil }

    /// The session comes from another address. Tokens begin with a bit that those of the session's own pings do not have.
    mutating func changed(_ now: Instant, _ random: inout RandomSource) {
        token = random.next() | 1 << 63
        (received, sent) = (0, 0)
        askAt = now
    }

    /// A datagram came from the address. Gives the token of a ping to be sent now, if one is.
    mutating func received(_ bytes: Int, _ now: Instant) -> UInt64? {
        guard let token else { return nil }
        received += bytes
        guard askAt <= now, maySend(Datagram.pairSize) else { return nil }
        askAt = now.advanced(by: Self.repetition)
        return token
    }

    /// Whether a datagram of so many bytes may go to the address; counts it if so.
    mutating func maySend(_ bytes: Int) -> Bool {
        guard token != nil else { return true }
        guard sent + bytes <= received * Self.amplification else { return false }
        sent += bytes
        return true
    }

    /// The address has answered a ping. Whether that was the one which proves it.
    mutating func answered(_ token: UInt64?) -> Bool {
        guard let token, token == self.token else { return false }
        self.token = nil
        return true
    }
}
