import TransportAPI

/// The part of a DTLS server without state (RFC 6347, section 4.2.1). It answers each ClientHello with a cookie.
///
/// Nothing is stored for a client until it has returned the cookie that was sent to its address. So forged addresses
/// cost no memory. The answer is shorter than the shortest ClientHello, so there is no amplification.
package struct DTLSListenerCore: Sendable {
    /// Identifies a handshake: 16 bytes of the client's random number (RFC 5246, section 7.4.1.2).
    package struct HelloID: Sendable, Hashable {
        fileprivate var nonce: UInt64
        fileprivate var rest: UInt64
    }

    /// The action that a ClientHello requires.
    package enum Decision: Sendable, Equatable {
        /// Send the content of `reply` to the address of the datagram.
        case reply
        /// The client has returned its cookie. Its handshake can begin with this datagram.
        case accept(HelloID)
        /// Drop the datagram.
        case drop
    }

    private static let cookieSize = 8
    /// The place of the ClientHello after the headers of the record and of the handshake message.
    private static let bodyStart = DTLSRecord.headerSize + 12

    /// How many handshakes that have ended are remembered.
    private static let rememberedHandshakes = 65_536

    private var cookies: UDPCookies
    /// The handshakes that have ended. Their ClientHellos would make the server send a flight again.
    private var used = UsedCookies(limit: rememberedHandshakes)

    /// Creates a listener. Its secret keys come from `random`, which must be a cryptographic source.
    package init(random: inout RandomSource) {
        cookies = UDPCookies(&random)
    }

    /// Decides on a datagram that is not encrypted.
    ///
    /// - Parameters:
    ///   - datagram: The datagram that has arrived.
    ///   - address: The sender's address and port, as bytes in any form that is the same each time.
    ///   - now: The present time.
    ///   - random: The source of keys.
    ///   - reply: Is emptied, and filled if the decision is ``Decision/reply``.
    package mutating func receive(
        _ datagram: borrowing ByteBuffer,
        from address: UnsafeRawBufferPointer,
        now: Instant,
        random: inout RandomSource,
        reply: inout ByteBuffer
    ) -> Decision {
        reply.removeAll()
        guard let (id, cookie) = Self.hello(datagram) else { return .drop }
        cookies.keepTime(now, &random)
        if let cookie, cookies.isValid(cookie, id.nonce, address) {
            used.forgetExpired(now: now)
            return used.contains(id.nonce) ? .drop : .accept(id)
        }
        Self.appendVerifyRequest(cookies.cookie(id.nonce, address), to: datagram, &reply)
        return .reply
    }

    /// Records that a handshake, or the association after it, has ended. Its ClientHello begins no other one while its cookie
    /// is valid.
    package mutating func ended(_ id: HelloID, now: Instant) {
        used.insert(id.nonce, now: now)
    }

    /// Reads the first fragment of a ClientHello, up to its cookie.
    private static func hello(_ datagram: borrowing ByteBuffer) -> (id: HelloID, cookie: UInt64?)? {
        guard let record = DTLSRecord(datagram), record.isHandshake, record.isPlain,
            let recordLength = datagram.integer(at: 11, as: UInt16.self),
            // The type of the message (1), and its length.
            let start = datagram.integer(at: DTLSRecord.headerSize, as: UInt32.self), start >> 24 == 1,
            // The place of the fragment, and its length.
            let offset = number(datagram, 19), offset == 0,
            let length = number(datagram, 22), length <= start & 0xff_ffff, Int(length) + 12 <= Int(recordLength),
            let nonce = datagram.integer(at: bodyStart + 2, as: UInt64.self),
            let rest = datagram.integer(at: bodyStart + 10, as: UInt64.self)
        else { return nil }
        let end = bodyStart + Int(length)
        let sessionStart = bodyStart + 34
        guard let sessionLength = datagram.byte(at: sessionStart), sessionLength <= 32 else { return nil }
        let cookieStart = sessionStart + 1 + Int(sessionLength)
        guard let cookieLength = datagram.byte(at: cookieStart), cookieStart + 1 + Int(cookieLength) <= end else {
            return nil
        }
        let cookie =
            Int(cookieLength) == cookieSize ? datagram.integer(at: cookieStart + 1, as: UInt64.self) : nil
        return (HelloID(nonce: nonce, rest: rest), cookie)
    }

    /// A number of three bytes.
    private static func number(_ datagram: borrowing ByteBuffer, _ offset: Int) -> UInt32? {
        datagram.integer(at: offset - 1, as: UInt32.self).map { $0 & 0xff_ffff }
    }

    /// Appends a HelloVerifyRequest. Its record has the number of the ClientHello's record.
    private static func appendVerifyRequest(
        _ cookie: UInt64,
        to hello: borrowing ByteBuffer,
        _ reply: inout ByteBuffer
    ) {
        let bodySize = 3 + cookieSize
        reply.append(integer: UInt32(0x16fe_ff00))
        reply.append(0)
        for offset in 5..<11 { reply.append(hello.byte(at: offset) ?? 0) }
        reply.append(integer: UInt16(12 + bodySize))
        // The type (3) and the length of the message, its number 0, and one fragment with all of it.
        reply.append(integer: UInt32(3 << 24 | bodySize))
        reply.append(integer: UInt32(0))
        reply.append(0)
        reply.append(integer: UInt16(0))
        reply.append(UInt8(bodySize))
        // The version must be that of DTLS 1.0.
        reply.append(integer: UInt16(0xfeff))
        reply.append(UInt8(cookieSize))
        reply.append(integer: cookie)
    }
}
