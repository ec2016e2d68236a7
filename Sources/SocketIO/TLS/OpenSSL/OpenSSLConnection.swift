import CSocketIO
import Primitives

// Constants of openssl/ssl.h.
private let setHostName: Int32 = 55
private let wantsRead: Int32 = 2
private let wantsWrite: Int32 = 3
private let zeroReturn: Int32 = 6
/// SSL_SENT_SHUTDOWN and SSL_RECEIVED_SHUTDOWN.
private let bothShutdowns: Int32 = 3
/// X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS and X509_CHECK_FLAG_NEVER_CHECK_SUBJECT (RFC 9525, sections 6.3 and 2).
private let nameFlags: UInt32 = 0x4 | 0x20

/// An SSL: one connection of OpenSSL, over a stream or over datagrams. It belongs to one loop.
class OpenSSLConnection {
    let context: OpenSSLContext
    let functions: UnsafePointer<csocketio_openssl>
    /// The SSL.
    let connection: UnsafeMutableRawPointer
    private let server: OpenSSLSessions.Server
    /// Why the peer's certificate was rejected.
    private var rejection: TLSFailure?
    /// Whether the server has requested a certificate, and this side has sent none.
    var hasSentNoCertificate = false
    /// Whether the peer has requested a renegotiation, and this side has refused it.
    var hasRefusedRenegotiation = false
    private(set) var description: TLSDescription?
    /// The memory of the peer's certificate, in bytes.
    private(set) var peerMemory = 0
    /// When this connection and the session that it offers began, in nanoseconds of ``MonotonicClock``.
    private let began = MonotonicClock.now()
    private var offeredSessionBegan: Int64 = 0
    /// When the session of this connection began, which is the time of its full handshake.
    private var sessionBegan: Int64 { isResumed ? offeredSessionBegan : began }
    private var isResumed: Bool { functions.pointee.SSL_session_reused(connection) == 1 }
    // Unchecked exclusivity, because no other code runs while it changes.
    @exclusivity(unchecked) private var isComplete = false

    /// Makes an SSL. Returns `nil` without memory.
    static func make(_ context: OpenSSLContext) -> UnsafeMutableRawPointer? {
        context.library.functions.pointee.ERR_clear_error()
        return context.library.functions.pointee.SSL_new(context.pointer)
    }

    /// Takes over an SSL, which has no stream yet.
    ///
    /// - Parameters:
    ///   - connection: the SSL.
    ///   - host: the name or address of the server; `nil` at a server.
    ///   - port: the port of the server.
    init(_ context: OpenSSLContext, _ connection: UnsafeMutableRawPointer, host: String?, port: UInt16) {
        self.context = context
        functions = context.library.functions
        self.connection = connection
        server = OpenSSLSessions.Server(host: host ?? "", port: port)
        _ = functions.pointee.SSL_set_ex_data(connection, 0, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Prepares the handshake of one side. Returns whether the name of the server can be checked.
    func prepare() -> Bool {
        guard context.settings.side == .client else {
            functions.pointee.SSL_set_accept_state(connection)
            return true
        }
        functions.pointee.SSL_set_connect_state(connection)
        guard expect(server.host) else { return false }
        if let kept = context.sessions.take(of: server) {
            _ = functions.pointee.SSL_set_session(connection, kept.session)
            functions.pointee.SSL_SESSION_free(kept.session)
            offeredSessionBegan = kept.began
        }
        return true
    }

    deinit {
        // Without this, OpenSSL would not continue the session of a connection that was cut. TLS no longer requires that
        // (RFC 5246, section 7.2.1). After a failure of TLS itself, OpenSSL has dropped the session already.
        functions.pointee.SSL_set_shutdown(connection, bothShutdowns)
        functions.pointee.SSL_free(connection)
    }

    /// Sets the name or the address that the server's certificate must have.
    private func expect(_ host: String) -> Bool {
        let parameters = functions.pointee.SSL_get0_param(connection)
        functions.pointee.X509_VERIFY_PARAM_set_hostflags(parameters, nameFlags)
        // A zone names an interface of this machine and is in no certificate.
        let address = host.utf8.contains(UInt8(ascii: ":")) ? String(host.prefix { $0 != "%" }) : host
        if functions.pointee.X509_VERIFY_PARAM_set1_ip_asc(parameters, address) == 1 { return true }
        functions.pointee.ERR_clear_error()
        // A trailing dot is part of no name in a certificate (RFC 6066, section 3).
        let name = host.utf8.last == UInt8(ascii: ".") ? String(host.dropLast()) : host
        return name.withCString { text in
            functions.pointee.X509_VERIFY_PARAM_set1_host(parameters, text, 0) == 1
                && functions.pointee.SSL_ctrl(connection, setHostName, 0, UnsafeMutableRawPointer(mutating: text)) == 1
        }
    }

    // MARK: Steps

    /// Clears errors that other code has left, because they would be taken for errors of the next call.
    @inline(__always)
    func clearErrors() {
        // Clearing an empty queue is slow.
        if functions.pointee.ERR_peek_error() != 0 { functions.pointee.ERR_clear_error() }
    }

    /// Translates the result of a call.
    @inline(__always)
    func step(_ result: Int32, consumed: Int, count: Int) -> TLSStep {
        guard result != 1 else {
            if !isComplete, let expired = complete() { return TLSStep(.failed(expired), consumed: consumed) }
            return TLSStep(.done, consumed: consumed, count: count)
        }
        switch functions.pointee.SSL_get_error(connection, result) {
        case wantsRead: return TLSStep(.needsInput, consumed: consumed)
        case wantsWrite: return TLSStep(.needsOutput, consumed: consumed)
        case zeroReturn: return TLSStep(.ended, consumed: consumed)
        default: return TLSStep(.failed(failure()), consumed: consumed)
        }
    }

    /// Why the connection has failed.
    func failure() -> TLSFailure {
        rejection
            ?? OpenSSLErrors.failure(
                functions.pointee.ERR_peek_error(),
                context.settings,
                context.library.errorText(),
                OpenSSLErrors.Situation(
                    hasSentNoCertificate: hasSentNoCertificate,
                    hasRefusedRenegotiation: hasRefusedRenegotiation,
                    isComplete: isComplete
                )
            )
    }

    // MARK: The peer's certificates

    /// How many certificates a peer may send. To decode one takes up to 0.3 ms, whether or not it belongs to the chain. A server
    /// has many clients, which could delay each other, and authorities for clients need few intermediate certificates.
    private var mostCertificates: Int { context.settings.side == .client ? 10 : 3 }
    /// The number of a Certificate message (RFC 8446, section 4).
    private static let certificateMessage: UInt8 = 11

    /// Counts the certificates of a message before OpenSSL decodes them, inside a callback.
    ///
    /// - Parameters:
    ///   - message: the message with its header.
    ///   - version: the protocol version of the connection.
    func check(_ message: UnsafeRawBufferPointer, _ version: Int32) {
        // RFC 8446, section 4, and RFC 6347, section 4.2.2.
        let header = context.settings.isDatagram ? 12 : 4
        guard message.count > header, message[0] == Self.certificateMessage else { return }
        let count = Self.certificates(of: message.dropFirst(header), isTLS13: version == 0x0304)
        guard count > mostCertificates else { return }
        let peer = context.settings.side == .client ? "server" : "client"
        rejection = TLSFailure(
            .invalidCertificate,
            "the \(peer) has sent \(count) certificates; at most \(mostCertificates) are accepted: its chain must "
                + "contain only those between its own certificate and the authority"
        )
        // A callback cannot refuse a message. With this first length, OpenSSL refuses it before it decodes a certificate.
        UnsafeMutableRawBufferPointer(mutating: message)[header] = 0xff
    }

    /// The number of certificates in the body of a message (RFC 8446, section 4.4.2; RFC 5246, section 7.4.2).
    private static func certificates(of body: Slice<UnsafeRawBufferPointer>, isTLS13: Bool) -> Int {
        var rest = body
        func takeLength(_ bytes: Int) -> Int? {
            guard rest.count >= bytes else { return nil }
            defer { rest = rest.dropFirst(bytes) }
            return rest.prefix(bytes).reduce(0) { $0 << 8 | Int($1) }
        }
        if isTLS13 {
            guard let context = takeLength(1) else { return 0 }
            rest = rest.dropFirst(context)
        }
        guard takeLength(3) != nil else { return 0 }
        var count = 0
        while let length = takeLength(3) {
            count += 1
            rest = rest.dropFirst(length)
            if isTLS13, let extensions = takeLength(2) { rest = rest.dropFirst(extensions) }
        }
        return count
    }

    /// Frees the certificates that were needed only to verify the peer. They would take the memory of a connection, and of a
    /// kept session, for ever.
    private func dropChain() {
        let functions = functions.pointee
        for chain in [
            functions.SSL_get_peer_cert_chain(connection), functions.SSL_get0_verified_chain(connection),
        ] {
            guard let chain else { continue }
            while let certificate = functions.OPENSSL_sk_pop(chain) { functions.X509_free(certificate) }
        }
    }

    /// The most memory that OpenSSL needs for a certificate of `length` encoded bytes. A usual one takes ten times its length,
    /// and a list of the shortest names 56 times.
    private static func memory(of length: Int) -> Int {
        12 * min(length, 2048) + 56 * max(0, length - 2048)
    }

    // MARK: The handshake

    /// Describes the connection after its handshake. Returns a failure if a client continues a session after the end of its
    /// certificate, because OpenSSL checks certificates in full handshakes only.
    private func complete() -> TLSFailure? {
        isComplete = true
        // A resumed session may belong to a connection on another loop too, and its chain was dropped before.
        if !isResumed { dropChain() }
        let functions = functions.pointee
        functions.SSL_set_msg_callback(connection, nil)
        let certificate = functions.SSL_get1_peer_certificate(connection)
        defer { if let certificate { functions.X509_free(certificate) } }
        peerMemory = certificate.map { Self.memory(of: Int(functions.i2d_X509($0, nil))) } ?? 0
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        functions.SSL_get0_alpn_selected(connection, &name, &length)
        let settings = context.settings
        description = TLSDescription(
            version: functions.SSL_get_version(connection).map { String(cString: $0) } ?? "",
            cipher: functions.SSL_CIPHER_get_name(functions.SSL_get_current_cipher(connection)).map {
                String(cString: $0)
            } ?? "",
            applicationProtocol: name.map {
                String(decoding: UnsafeBufferPointer(start: $0, count: Int(length)), as: UTF8.self)
            },
            isResumed: isResumed,
            isVerified: settings.side == .client ? settings.verifiesServer : certificate != nil,
            peer: certificate.map { OpenSSLCertificate($0, self.functions).description }
        )
        guard isResumed, settings.side == .server,
            let certificate = certificate.map({ OpenSSLCertificate($0, self.functions) }),
            certificate.hasExpired
        else { return nil }
        description = nil
        let sentence = "the certificate of the client expired on \(certificate.validTo) UTC"
        return TLSFailure(.expired, sentence + OpenSSLErrors.facts(certificate))
    }

    /// Chooses the first protocol of this server that the client offers. Returns the result of OpenSSL's callback.
    func selectProtocol(
        _ offered: UnsafeBufferPointer<UInt8>,
        _ selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
        _ length: UnsafeMutablePointer<UInt8>?
    ) -> Int32 {
        for name in context.settings.protocols {
            var index = 0
            while index < offered.count {
                let count = Int(offered[index])
                let end = index + 1 + count
                guard end <= offered.count else { return 2 }
                if offered[(index + 1)..<end].elementsEqual(name.utf8) {
                    selected?.pointee = offered.baseAddress.map { $0 + index + 1 }
                    length?.pointee = UInt8(count)
                    return 0
                }
                index = end
            }
        }
        return 2
    }

    /// Whether the peer's certificate of a session has expired. Called inside a callback.
    func hasExpiredPeer(_ session: UnsafeMutableRawPointer?) -> Bool {
        guard let session, let certificate = functions.pointee.SSL_SESSION_get0_peer(session) else { return false }
        return OpenSSLCertificate(certificate, functions).hasExpired
    }

    /// Keeps a session for the next connection to the same server, inside a callback.
    func keep(_ session: UnsafeMutableRawPointer) {
        guard functions.pointee.SSL_SESSION_is_resumable(session) == 1 else {
            return functions.pointee.SSL_SESSION_free(session)
        }
        // With TLS 1.2, the session is complete before the handshake is.
        if !isResumed { dropChain() }
        context.sessions.add(session, began: sessionBegan, of: server)
    }

    /// Decides about one certificate of the peer's chain, inside a callback. Returns whether to continue.
    func verify(_ isValid: Bool, _ verification: UnsafeMutableRawPointer) -> Bool {
        let functions = functions.pointee
        let depth = functions.X509_STORE_CTX_get_error_depth(verification)
        let error = functions.X509_STORE_CTX_get_error(verification)
        guard isValid else {
            // The revocation of authorities is checked only if the file has lists of their issuers.
            if error == OpenSSLErrors.noRevocationList, depth > 0 {
                functions.X509_STORE_CTX_set_error(verification, 0)
                return true
            }
            if rejection == nil {
                let certificate = functions.X509_STORE_CTX_get_current_cert(verification)
                let chain = functions.X509_STORE_CTX_get0_chain(verification)
                rejection = OpenSSLErrors.rejection(
                    error,
                    depth: Int(depth),
                    chainLength: Int(functions.OPENSSL_sk_num(chain)),
                    certificate.map { OpenSSLCertificate($0, self.functions) },
                    host: server.host,
                    text: functions.X509_verify_cert_error_string(Int(error)).map { String(cString: $0) } ?? ""
                )
            }
            return false
        }
        let pins = context.settings.pins
        guard depth == 0, !pins.isEmpty else { return true }
        let chain = functions.X509_STORE_CTX_get0_chain(verification)
        let digests = (0..<max(0, functions.OPENSSL_sk_num(chain))).compactMap { index in
            functions.OPENSSL_sk_value(chain, index).map { OpenSSLCertificate($0, self.functions).keyDigest }
        }
        if digests.contains(where: pins.contains) { return true }
        let seen = digests.map { String(decoding: Base64.encode($0), as: UTF8.self) }.joined(separator: ", ")
        let own = functions.OPENSSL_sk_value(chain, 0).map { OpenSSLCertificate($0, self.functions) }
        rejection = TLSFailure(
            .pinMismatch,
            "none of the keys in the certificate chain of \(server.host.isEmpty ? "the client" : server.host) is pinned; "
                + "the pins of its keys are \(seen)" + OpenSSLErrors.facts(own)
        )
        functions.X509_STORE_CTX_set_error(verification, OpenSSLErrors.rejectedByApplication)
        return false
    }
}
