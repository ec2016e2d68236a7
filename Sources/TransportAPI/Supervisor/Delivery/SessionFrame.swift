/// One frame of the session envelope, which two supervisors exchange inside the messages of any transport.
/// Docs/reference/wire-formats.md defines each byte.
package enum SessionFrame: Sendable, Hashable {
    /// The client's first frame on every connection. `incarnation` is 0 if the client knows none yet. `received` is the
    /// last sequence number that it has received in that incarnation. `attempt` grows with each of the client's
    /// attempts. So a delayed attempt can't take the session from a later connection. `limit` is the largest message that
    /// the client accepts over this connection, in bytes of its payload.
    case hello(SessionID, incarnation: UInt64, received: UInt64, attempt: UInt32 = 0, limit: UInt64 = .max)
    /// The server's answer, with the largest message that the server accepts. An incarnation other than the client's means
    /// that the server does not know the session. Both sides then count from one again.
    case welcome(incarnation: UInt64, received: UInt64, limit: UInt64 = .max)
    /// A message and its sequence number, counted from one.
    case message(UInt64, Payload)
    /// All messages up to this sequence number have been received.
    case acknowledge(UInt64)
    /// There will be no message of this sequence number, because it was given up.
    case skip(UInt64)
    /// A probe with a token.
    case ping(UInt32)
    /// The answer to a ping, with its token.
    case pong(UInt32)
    /// The session has ended, and the peer can forget it.
    case bye
    /// The server refuses the client.
    case refused(Refusal)
    /// A message between two clients of a broker, which acknowledges it itself. The sender's identifier and sequence
    /// number let the receiver drop repeated messages.
    case origin(SessionID, UInt64, Payload)

    /// The reason for which a server refuses a client.
    package enum Refusal: UInt8, Sendable, Hashable {
        /// The versions of the envelope differ.
        case version = 1

        /// The server has its maximum number of sessions.
        case full
        /// The client broke the envelope's rules.
        case broken
        /// The session belongs to a client with another identity.
        case otherIdentity
        /// The server received no hello, or another message before it.
        case helloExpected

        package var error: TransportError {
            var error = answer
            error.origin = .peer
            return error
        }

        private var answer: TransportError {
            switch self {
            case .version:
                TransportError(.handshakeFailed, .handshake, "the server speaks another version of the session")
            case .full: TransportError(.serverUnavailable, .handshake, "the server has its maximum number of sessions")
            case .otherIdentity:
                TransportError(.forbidden, .handshake, "the session belongs to a client with another identity")
            case .broken:
                TransportError(.protocolViolation, .open, "the peer saw a mistake in the session envelope")
            // This error is for a client with sessions, whose hello was lost or arrived too late.
            case .helloExpected:
                TransportError(.timedOut, .handshake, "the server has not received the session hello")
            }
        }
    }

    /// The frame with the refusal ``Refusal/helloExpected``. A text follows, because its reader is most likely a client
    /// without sessions.
    static let helloExpected = [10, Refusal.helloExpected.rawValue] + Array(TransportError.sessionsOnly.reason.utf8)

    static let version: UInt8 = 2
    /// The largest number of bytes that the envelope adds to a message.
    package static let overhead = 25
    /// The number of bytes that the envelope of a session adds to a message.
    private static let messageOverhead = 9

    /// The largest message of a session that this side accepts over a connection, in bytes of its payload.
    static func messageLimit(_ capabilities: Capabilities) -> UInt64 {
        UInt64(clamping: capabilities.maximumMessageSize - messageOverhead)
    }

    private enum Kind: UInt8 {
        case hello = 1
        case welcome, binary, text, acknowledge, skip, ping, pong, bye, refused, originBinary, originText
    }

    /// The payload that carries this frame.
    package var payload: Payload {
        var bytes: [UInt8] = []
        switch self {
        case .hello(let session, let incarnation, let received, let attempt, let limit):
            bytes.reserveCapacity(46)
            bytes += [Kind.hello.rawValue, Self.version]
            for word in [session.high, session.low, incarnation, received] { Self.append(word, to: &bytes) }
            Self.append(attempt, to: &bytes)
            Self.append(limit, to: &bytes)
        case .welcome(let incarnation, let received, let limit):
            bytes.reserveCapacity(25)
            bytes.append(Kind.welcome.rawValue)
            for word in [incarnation, received, limit] { Self.append(word, to: &bytes) }
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

    /// Returns whether the payload begins like an ``origin(_:_:_:)`` frame.
    package static func isOrigin(_ payload: Payload) -> Bool {
        guard let first = payload.bytes.first, payload.bytes.count >= 25 else { return false }
        return first == Kind.originBinary.rawValue || first == Kind.originText.rawValue
    }

    /// Reads a frame.
    ///
    /// - Throws: `.protocolViolation` for bytes that are not a frame.
    package init(_ payload: Payload) throws(TransportError) {
        let bytes = payload.bytes
        guard let first = bytes.first, let kind = Kind(rawValue: first) else {
            throw .envelope("the type of a frame is not known")
        }
        func word(_ offset: Int) throws(TransportError) -> UInt64 {
            guard bytes.count >= offset + 8 else { throw .envelope("a frame is too short") }
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
            try end(46)
            let session = SessionID(high: try word(2), low: try word(10))
            // The attempt's four bytes are the last four of this word.
            let attempt = UInt32(truncatingIfNeeded: try word(30))
            let (incarnation, received, limit) = (try word(18), try word(26), try word(38))
            self = .hello(session, incarnation: incarnation, received: received, attempt: attempt, limit: limit)
        case .welcome:
            try end(25)
            self = .welcome(incarnation: try word(1), received: try word(9), limit: try word(17))
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
            // The refusal of a missing hello has a text, and was read above.
            guard let refusal = Refusal(rawValue: bytes[1]), refusal != .helloExpected else {
                throw .envelope("the reason of a refusal is not known")
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
    /// The reason with which a session server closes the connection of a client without sessions. The detail is the
    /// close code, and the text fits a close frame.
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
    /// Returns a frame of these bytes with the topic, QoS and retained flag of this message.
    fileprivate func carrying(_ bytes: [UInt8]) -> Payload {
        Payload(bytes, topic: topic, qos: qos, isRetained: isRetained)
    }
}
