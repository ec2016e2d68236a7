/// One frame of the session envelope, which two supervisors exchange inside the messages of any transport.
/// Docs/reference/wire-formats.md defines each byte.
package enum SessionFrame: Sendable, Hashable {
    /// The client's first frame on every connection.
    case hello(SessionID, ClientHello)
    /// The server's answer, with the largest message that the server accepts. An incarnation other than the client's means
    /// that the server does not know the session, and begins another one.
    case welcome(incarnation: UInt64, received: UInt64, limit: UInt64 = .max, numbering: SessionNumbering = .fromOne)
    /// A message and its number. `isRepeated` means that the sender has sent it before, perhaps over another connection.
    case message(UInt64, Payload, isRepeated: Bool = false)
    /// All messages up to this number have been received.
    case acknowledge(UInt64)
    /// There will be no messages of these numbers.
    case skip(ClosedRange<UInt64>)
    /// A probe with a token.
    case ping(UInt32)
    /// The answer to a ping, with its token.
    case pong(UInt32)
    /// The session has ended, and the peer can forget it.
    case bye
    /// The server refuses the client.
    case refused(Refusal)
    /// A message between two clients of a broker, which acknowledges it itself. The sender's identifier and sequence
    /// number let the receiver drop repeated messages. `isRepeated` means that the sender may have sent it before.
    case origin(SessionID, UInt64, Payload, isRepeated: Bool = false)

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
        /// The server does not accept the token, or needs one.
        case notAuthenticated
        /// The server does not serve this client.
        case forbidden
        /// The server cannot serve the client now.
        case unavailable

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
            case .notAuthenticated:
                TransportError(.authenticationFailed, .handshake, "the server does not accept the token of the session")
            case .forbidden: TransportError(.forbidden, .handshake, "the server does not serve this client")
            case .unavailable: TransportError(.serverUnavailable, .handshake, "the server cannot serve the client now")
            // This error is for a client with sessions, whose hello was lost or arrived too late.
            case .helloExpected:
                TransportError(.timedOut, .handshake, "the server has not received the session hello")
            }
        }
    }

    /// The frame with the refusal ``Refusal/helloExpected``. A text follows, because its reader is most likely a client
    /// without sessions.
    static let helloExpected = [10, Refusal.helloExpected.rawValue] + Array(TransportError.sessionsOnly.reason.utf8)

    static let version: UInt8 = 3
    /// The largest number of bytes that the envelope adds to a message.
    package static let overhead = 25
    /// The number of bytes that the envelope of a session adds to a message.
    package static let messageOverhead = 9

    /// The largest message of a session that this side accepts over a connection, in bytes of its payload.
    static func messageLimit(_ capabilities: Capabilities) -> UInt64 {
        UInt64(clamping: capabilities.maximumMessageSize - messageOverhead)
    }

    /// The bytes of a hello before its token.
    private static let helloLength = 62
    private static let welcomeLength = 41

    private enum Kind: UInt8 {
        case hello = 1
        case welcome, binary, text, acknowledge, skip, ping, pong, bye, refused, originBinary, originText
        case repeatedBinary, repeatedText, repeatedOriginBinary
        // No text begins with this byte or the ones of the other origin frames, and no message of protobuf.
        case repeatedOriginText = 23
    }

    /// The payload that carries this frame.
    package var payload: Payload {
        var bytes: [UInt8] = []
        switch self {
        case .hello(let session, let hello):
            bytes.reserveCapacity(Self.helloLength + (hello.token?.utf8.count ?? 0))
            bytes += [Kind.hello.rawValue, Self.version]
            for word in [session.high, session.low, hello.incarnation, hello.received] { Self.append(word, to: &bytes) }
            Self.append(hello.attempt, to: &bytes)
            for word in [hello.limit, hello.numbering.first, hello.numbering.sender] { Self.append(word, to: &bytes) }
            if let token = hello.token { bytes += token.utf8 }
        case .welcome(let incarnation, let received, let limit, let numbering):
            bytes.reserveCapacity(Self.welcomeLength)
            bytes.append(Kind.welcome.rawValue)
            for word in [incarnation, received, limit, numbering.first, numbering.sender] {
                Self.append(word, to: &bytes)
            }
        case .message(let sequence, let payload, let isRepeated):
            bytes.reserveCapacity(9 + payload.bytes.count)
            let kind: Kind =
                switch (payload.kind, isRepeated) {
                case (.text, false): .text
                case (.text, true): .repeatedText
                case (.binary, false): .binary
                case (.binary, true): .repeatedBinary
                }
            bytes.append(kind.rawValue)
            Self.append(sequence, to: &bytes)
            bytes += payload.bytes
            return payload.carrying(bytes)
        case .acknowledge(let sequence): Self.write(.acknowledge, sequence, to: &bytes)
        case .skip(let numbers):
            bytes.append(Kind.skip.rawValue)
            for word in [numbers.lowerBound, numbers.upperBound] { Self.append(word, to: &bytes) }
        case .ping(let token): Self.write(.ping, token, to: &bytes)
        case .pong(let token): Self.write(.pong, token, to: &bytes)
        case .bye: bytes = [Kind.bye.rawValue]
        case .refused(.helloExpected): bytes = Self.helloExpected
        case .refused(let refusal): bytes = [Kind.refused.rawValue, refusal.rawValue]
        case .origin(let session, let sequence, let payload, let isRepeated):
            bytes.reserveCapacity(25 + payload.bytes.count)
            let kind: Kind =
                switch (payload.kind, isRepeated) {
                case (.text, false): .originText
                case (.text, true): .repeatedOriginText
                case (.binary, false): .originBinary
                case (.binary, true): .repeatedOriginBinary
                }
            bytes.append(kind.rawValue)
            for word in [session.high, session.low, sequence] { Self.append(word, to: &bytes) }
            bytes += payload.bytes
            return payload.carrying(bytes)
        }
        return Payload(bytes)
    }

    /// Returns whether the payload begins like an ``origin(_:_:_:isRepeated:)`` frame.
    package static func isOrigin(_ payload: Payload) -> Bool {
        guard let first = payload.bytes.first, payload.bytes.count >= 25 else { return false }
        return switch Kind(rawValue: first) {
        case .originBinary, .originText, .repeatedOriginBinary, .repeatedOriginText: true
        default: false
        }
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
            guard bytes.count >= Self.helloLength else { throw .envelope("a hello is too short") }
            let session = SessionID(high: try word(2), low: try word(10))
            let token = bytes.count > Self.helloLength ? try Self.token(bytes[Self.helloLength...]) : nil
            let hello = ClientHello(
                incarnation: try word(18),
                received: try word(26),
                // The attempt's four bytes are the last four of this word.
                attempt: UInt32(truncatingIfNeeded: try word(30)),
                limit: try word(38),
                numbering: try SessionNumbering(first: word(46), sender: word(54)),
                token: token
            )
            self = .hello(session, hello)
        case .welcome:
            try end(Self.welcomeLength)
            self = .welcome(
                incarnation: try word(1),
                received: try word(9),
                limit: try word(17),
                numbering: try SessionNumbering(first: word(25), sender: word(33))
            )
        case .binary: self = .message(try word(1), content(9, .binary))
        case .text: self = .message(try word(1), content(9, .text))
        case .repeatedBinary: self = .message(try word(1), content(9, .binary), isRepeated: true)
        case .repeatedText: self = .message(try word(1), content(9, .text), isRepeated: true)
        case .acknowledge:
            try end(9)
            self = .acknowledge(try word(1))
        case .skip:
            try end(17)
            let (first, last) = (try word(1), try word(9))
            guard first >= 1, first <= last, last <= SessionNumbering.largest else {
                throw .envelope("a skip begins with \(first) and ends with \(last)")
            }
            self = .skip(first...last)
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
        case .originBinary, .originText, .repeatedOriginBinary, .repeatedOriginText:
            let session = SessionID(high: try word(1), low: try word(9))
            self = .origin(
                session,
                try word(17),
                content(25, kind == .originText || kind == .repeatedOriginText ? .text : .binary),
                isRepeated: kind == .repeatedOriginBinary || kind == .repeatedOriginText
            )
        }
    }

    private static func token(_ bytes: ArraySlice<UInt8>) throws(TransportError) -> String {
        guard bytes.count <= ClientHello.longestToken else {
            throw .envelope("a token has \(bytes.count) bytes; allowed are \(ClientHello.longestToken)")
        }
        guard let token = String(validating: bytes, as: UTF8.self) else { throw .envelope("a token is not UTF-8") }
        return token
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
