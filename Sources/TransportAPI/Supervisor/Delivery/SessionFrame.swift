/// Names one client across all its connections. Random, so that nobody can resume a session without having seen it.
public struct SessionID: Sendable, Hashable {
    /// The first eight bytes.
    public var high: UInt64
    /// The last eight bytes.
    public var low: UInt64

    /// An identifier from its two halves, in network byte order on the wire.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A new identifier.
    public init(using random: inout some RandomNumberGenerator) {
        self.init(high: random.next(), low: random.next())
    }
}

/// One frame of the session envelope: what two supervisors say to each other inside the messages of any transport. Each
/// byte is written down in Docs/reference/wire-formats.md.
package enum SessionFrame: Sendable, Hashable {
    /// Client to server, first on every connection. `incarnation` is 0 if the client knows none yet; `received` is the
    /// last sequence number that it has received in that incarnation; `attempt` grows with each of the client's
    /// attempts, so that one that was held up on its way does not take the session from the connection that came after
    /// it.
    case hello(SessionID, incarnation: UInt64, received: UInt64, attempt: UInt32 = 0)
    /// The server's answer. An incarnation other than the client's means that the server knows nothing of the session, or no
    /// longer: both sides count from one again.
    case welcome(incarnation: UInt64, received: UInt64)
    /// A message and its sequence number, from one upwards.
    case message(UInt64, Payload)
    /// Everything up to this sequence number has been received.
    case acknowledge(UInt64)
    /// There will be no message of this sequence number: it was given up.
    case skip(UInt64)
    case ping(UInt32)
    case pong(UInt32)
    /// The session is over; the other side may forget it.
    case bye
    /// The server does not take the client.
    case refused(Refusal)
    /// A message between two clients of a broker, which acknowledges it itself: the sender's identifier and sequence number let
    /// the receiver drop what comes again.
    case origin(SessionID, UInt64, Payload)

    /// Why a server refuses a client.
    package enum Refusal: UInt8, Sendable, Hashable {
        case version = 1
        case full, broken, otherIdentity
        /// No hello came, or another message came first.
        case helloExpected

        package var error: TransportError {
            switch self {
            case .version:
                TransportError(.handshakeFailed, .handshake, "the server speaks another version of the session")
            case .full: TransportError(.serverUnavailable, .handshake, "the server has as many sessions as it may have")
            case .otherIdentity:
                TransportError(.forbidden, .handshake, "the session belongs to a client with another identity")
            case .broken:
                TransportError(.protocolViolation, .open, "the peer saw a mistake in the session envelope")
            // A client with sessions reads this. Its hello was lost, or came too late.
            case .helloExpected:
                TransportError(.timedOut, .handshake, "the server has not received the session hello")
            }
        }
    }

    /// The frame with the refusal ``Refusal/helloExpected``. A text follows, because its reader is most likely a client
    /// without sessions.
    static let helloExpected = [10, Refusal.helloExpected.rawValue] + Array(TransportError.sessionsOnly.reason.utf8)

    static let version: UInt8 = 1
    /// What the envelope adds to a message at most, in bytes.
    package static let overhead = 25

    private enum Kind: UInt8 {
        case hello = 1
        case welcome, binary, text, acknowledge, skip, ping, pong, bye, refused, originBinary, originText
    }

    /// The payload that carries this frame.
    package var payload: Payload {
        var bytes: [UInt8] = []
        switch self {
        case .hello(let session, let incarnation, let received, let attempt):
            bytes.reserveCapacity(38)
            bytes += [Kind.hello.rawValue, Self.version]
            for word in [session.high, session.low, incarnation, received] { Self.append(word, to: &bytes) }
            Self.append(attempt, to: &bytes)
        case .welcome(let incarnation, let received):
            bytes.reserveCapacity(17)
            bytes.append(Kind.welcome.rawValue)
            for word in [incarnation, received] { Self.append(word, to: &bytes) }
        case .message(let sequence, let payload):
            bytes.reserveCapacity(9 + payload.bytes.count)
            bytes.append((payload.kind == .text ? Kind.text : .binary).rawValue)
            Self.append(sequence, to: &bytes)
            bytes += payload.bytes
            return payload.carrying(bytes)
        case .acknowledge(let sequence): Self.write(.acknowledge, sequence, to: &bytes)
        case .skip(let sequence): Self.write(.skip, sequence, to: &bytes)
        case .ping(let token): Self.write(.ping, token, to: &bytes)
        case .pong(let token): Self.write(.pong, token, to: &bytes)
        case .bye: bytes = [Kind.bye.rawValue]
        case .refused(.helloExpected): bytes = Self.helloExpected
        case .refused(let refusal): bytes = [Kind.refused.rawValue, refusal.rawValue]
        case .origin(let session, let sequence, let payload):
            bytes.reserveCapacity(25 + payload.bytes.count)
            bytes.append((payload.kind == .text ? Kind.originText : .originBinary).rawValue)
            for word in [session.high, session.low, sequence] { Self.append(word, to: &bytes) }
            bytes += payload.bytes
            return payload.carrying(bytes)
        }
        return Payload(bytes)
    }

    /// Whether the payload begins as an ``origin(_:_:_:)`` does.
    package static func isOrigin(_ payload: Payload) -> Bool {
        guard let first = payload.bytes.first, payload.bytes.count >= 25 else { return false }
        return first == Kind.originBinary.rawValue || first == Kind.originText.rawValue
    }

    /// Reads a frame. Throws `.protocolViolation` for anything that is none.
    package init(_ payload: Payload) throws(TransportError) {
        let bytes = payload.bytes
        guard let first = bytes.first, let kind = Kind(rawValue: first) else {
            throw .envelope("there is no such frame")
        }
        func word(_ offset: Int) throws(TransportError) -> UInt64 {
            guard bytes.count >= offset + 8 else { throw .envelope("a frame is cut short") }
            return bytes[offset..<offset + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        func end(_ length: Int) throws(TransportError) {
            guard bytes.count == length else { throw .envelope("a frame has the wrong length") }
        }
        func token() throws(TransportError) -> UInt32 {
            try end(5)
            return bytes[1..<5].reduce(0) { $0 << 8 | UInt32($1) }
        }
        func content(_ offset: Int, _ kind: Payload.Kind) -> Payload {
            var content = payload
            content.bytes = Array(bytes[offset...])
            content.kind = kind
            return content
        }
        switch kind {
        case .hello:
            guard bytes.count >= 2, bytes[1] == Self.version else { throw Refusal.version.error }
            try end(38)
            let session = SessionID(high: try word(2), low: try word(10))
            // Its last four bytes end the word that begins four bytes before them.
            let attempt = UInt32(truncatingIfNeeded: try word(30))
            self = .hello(session, incarnation: try word(18), received: try word(26), attempt: attempt)
        case .welcome:
            try end(17)
            self = .welcome(incarnation: try word(1), received: try word(9))
        case .binary: self = .message(try word(1), content(9, .binary))
        case .text: self = .message(try word(1), content(9, .text))
        case .acknowledge:
            try end(9)
            self = .acknowledge(try word(1))
        case .skip:
            try end(9)
            self = .skip(try word(1))
        case .ping: self = .ping(try token())
        case .pong: self = .pong(try token())
        case .bye:
            try end(1)
            self = .bye
        case .refused where bytes == Self.helloExpected: self = .refused(.helloExpected)
        case .refused:
            try end(2)
            // A hello that is expected is refused with a text, which has been read above.
            guard let refusal = Refusal(rawValue: bytes[1]), refusal != .helloExpected else {
                throw .envelope("there is no such refusal")
            }
            self = .refused(refusal)
        case .originBinary, .originText:
            let session = SessionID(high: try word(1), low: try word(9))
            self = .origin(session, try word(17), content(25, kind == .originText ? .text : .binary))
        }
    }

    private static func write(_ kind: Kind, _ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        bytes.append(kind.rawValue)
        append(number, to: &bytes)
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}

extension TransportError {
    /// The reason with which a session server closes the connection of a client without sessions. The detail is the close
    /// code, and the text fits a close frame.
    static let sessionsOnly = TransportError(
        .unsupported,
        .handshake,
        "this server expects sessions: set the client's delivery mode to session",
        detail: 1003
    )

    static func envelope(_ what: String) -> TransportError {
        TransportError(.protocolViolation, .open, "session envelope: \(what)")
    }
}

extension Payload {
    /// A frame of these bytes that goes where this message goes, and as it does.
    fileprivate func carrying(_ bytes: [UInt8]) -> Payload {
        Payload(bytes, topic: topic, qos: qos, isRetained: isRetained)
    }
}
