import CSocketIO
import Primitives

// Constants of openssl/ssl.h and openssl/x509_vfy.h.
private let setMode: Int32 = 33
private let setSessionCacheMode: Int32 = 44
private let setReadAhead: Int32 = 41
private let setMaximumChain: Int32 = 51
private let setGroups: Int32 = 92
private let setSignatures: Int32 = 98
private let setMinimumVersion: Int32 = 123
private let setMaximumVersion: Int32 = 124
private let tls12 = 0x0303
private let tls13 = 0x0304
private let dtls12 = 0xfefd
/// SSL_MODE_ENABLE_PARTIAL_WRITE and SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER. The buffers of an idle connection are freed
/// by ``OpenSSLEngine/rest()``, because SSL_MODE_RELEASE_BUFFERS would free them after each record.
private let modes = 0x01 | 0x02
/// SSL_OP_NO_RENEGOTIATION, SSL_OP_NO_COMPRESSION and SSL_OP_ENABLE_MIDDLEBOX_COMPAT.
private let options: UInt64 = 1 << 30 | 1 << 17 | 1 << 20
/// SSL_OP_NO_QUERY_MTU: the stream cannot tell the size of datagrams.
private let noQuery: UInt64 = 1 << 12
/// The ciphers of TLS 1.2 and DTLS 1.2 with forward secrecy and authenticated encryption. RFC 9325, section 4.2,
/// recommends those with AES-GCM. All others would also make datagrams longer than ``DTLS/overhead``.
private let olderCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20"
/// The ciphers of TLS 1.3 (RFC 8446, appendix B.4) without those whose tags are short or that constrained devices use.
private let newestCiphers = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"
/// The group of a key exchange that a quantum computer cannot break, which OpenSSL has since version 3.5.
private let hybridGroup = "X25519MLKEM768"
/// The groups of key exchanges, the preferred ones first. The peer chooses one of them, so each must be cheap: an exchange
/// with ffdhe8192 costs the other side 160 ms, and one with X25519 a twentieth of a millisecond.
private let groups = [hybridGroup, "X25519", "P-256"]
/// A client also accepts this group, because with TLS 1.2 and DTLS 1.2 a server with a key on this curve needs it. At a
/// server, every client could cause its cost, which is twenty times that of X25519.
private let groupOfServers = "P-384"
/// The signatures of handshakes: those of RFC 8446, section 4.2.3, without SHA-1.
private let signatures = [
    "ecdsa_secp256r1_sha256", "ed25519", "ecdsa_secp384r1_sha384", "ecdsa_secp521r1_sha512", "ed448",
    "rsa_pss_pss_sha256", "rsa_pss_pss_sha384", "rsa_pss_pss_sha512", "rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384",
    "rsa_pss_rsae_sha512", "rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512",
]
/// The longest chain of certificates that a peer may send, in bytes. Longer ones are refused by their announced length.
private let longestChain = 18 << 10
/// SSL3_RT_HANDSHAKE, the content of a handshake message in OpenSSL's callback.
private let handshakeMessage: Int32 = 22
private let verifyPeer: Int32 = 1
private let failWithoutCertificate: Int32 = 2
/// SSL_SESS_CACHE_CLIENT with SSL_SESS_CACHE_NO_INTERNAL.
private let clientSessions = 0x301
/// SSL_TICKET_SUCCESS and SSL_TICKET_SUCCESS_RENEW: how OpenSSL has found a client's ticket.
private let ticketIsGood: Int32 = 5
private let ticketIsOld: Int32 = 6
/// SSL_TICKET_RETURN_IGNORE_RENEW, SSL_TICKET_RETURN_USE and SSL_TICKET_RETURN_USE_RENEW: what happens with it.
private let ignoreTicket: Int32 = 2
private let useTicket: Int32 = 3
private let useAndRenewTicket: Int32 = 4
/// SSL_CB_WRITE_ALERT, and the value of a warning (RFC 5246, section 7.2) that refuses a renegotiation.
private let hasWrittenAlert: Int32 = 0x4008
private let noRenegotiation: Int32 = 1 << 8 | 100
/// SSL_CTRL_CHAIN_CERT.
private let addToChain: Int32 = 89
/// PEM_R_NO_START_LINE.
private let noStartLine: UInt = 108
/// ERR_R_UNSUPPORTED, the error of a text without a private key.
private let unsupported: UInt = 0x8_010c
/// X509_V_FLAG_CRL_CHECK and X509_V_FLAG_CRL_CHECK_ALL.
private let checkRevocation: UInt = 0x4 | 0x8

/// An SSL_CTX: settings and loaded certificates, shared by the connections of one configuration.
package final class OpenSSLContext: TLSContext, @unchecked Sendable {
    // Unchecked, because OpenSSL counts references of an SSL_CTX atomically and nothing changes it once it is shared.

    let library: OpenSSL
    let settings: TLSSettings
    let sessions: OpenSSLSessions
    /// The SSL_CTX.
    let pointer: UnsafeMutableRawPointer

    init(
        _ settings: TLSSettings,
        _ library: OpenSSL,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) {
        let functions = library.functions
        functions.pointee.ERR_clear_error()
        let method = settings.isDatagram ? functions.pointee.DTLS_method() : functions.pointee.TLS_method()
        guard let pointer = functions.pointee.SSL_CTX_new_ex(functions.pointee.library_context, nil, method) else {
            throw .busy("OpenSSL cannot create a context: \(library.errorText())")
        }
        self.library = library
        self.settings = settings
        self.pointer = pointer
        sessions = OpenSSLSessions(functions)
        // All fields are set, so `deinit` frees the context if this throws.
        try setProtocol()
        try loadAuthorities()
        try loadRevocationLists()
        try loadCertificate(password)
    }

    deinit {
        library.functions.pointee.SSL_CTX_free(pointer)
    }

    package func makeEngine(host: String?, port: UInt16) -> (any TLSEngine)? {
        OpenSSLEngine(self, host: host, port: port)
    }

    package func makeDatagramEngine(host: String?, port: UInt16, largest: Int) -> (any DatagramTLSEngine)? {
        settings.isDatagram ? OpenSSLDatagramEngine(self, host: host, port: port, largest: largest) : nil
    }

    private var isServer: Bool { settings.side == .server }

    private func setProtocol() throws(TLSSetupError) {
        let functions = library.functions.pointee
        // If the program itself uses OpenSSL, its configuration file has set defaults of every context. So nothing that
        // weakens a connection is left at its default.
        functions.SSL_CTX_set_security_level(pointer, 2)
        _ = functions.SSL_CTX_clear_options(pointer, .max)
        functions.SSL_CTX_set_verify(pointer, 0, nil)
        try setAlgorithms()
        _ = functions.SSL_CTX_ctrl(pointer, setMaximumChain, longestChain, nil)
        if settings.isDatagram {
            guard functions.SSL_CTX_ctrl(pointer, setMinimumVersion, dtls12, nil) == 1,
                functions.SSL_CTX_ctrl(pointer, setMaximumVersion, dtls12, nil) == 1
            else {
                throw .setting("min-tls", "is 1.2, which this OpenSSL cannot require for datagrams")
            }
            _ = functions.SSL_CTX_set_options(pointer, options | noQuery)
            if isServer {
                csocketio_set_up_datagrams(library.functions, pointer)
            }
        } else {
            let oldest = settings.minimumVersion == .tls13 ? tls13 : tls12
            guard functions.SSL_CTX_ctrl(pointer, setMinimumVersion, oldest, nil) == 1 else {
                throw .setting("min-tls", "is \(settings.minimumVersion.rawValue), which this OpenSSL cannot require")
            }
            // 0 is the newest version that OpenSSL has.
            let newest = settings.maximumVersion == .tls12 ? tls12 : 0
            guard functions.SSL_CTX_ctrl(pointer, setMaximumVersion, newest, nil) == 1 else {
                throw .setting("max-tls", "is \(settings.maximumVersion.rawValue), which this OpenSSL cannot require")
            }
            _ = functions.SSL_CTX_ctrl(pointer, setMode, modes, nil)
            // The input of each call is one record, so this reads no more than that, but all of it at once.
            _ = functions.SSL_CTX_ctrl(pointer, setReadAhead, 1, nil)
            _ = functions.SSL_CTX_set_options(pointer, options)
        }
        // OpenSSL calls this for steps of handshakes and for alerts, but not for data.
        functions.SSL_CTX_set_info_callback(pointer) { connection, place, value in
            guard place == hasWrittenAlert, value == noRenegotiation else { return }
            OpenSSL.connection(of: connection)?.hasRefusedRenegotiation = true
        }
        // OpenSSL calls this for each message and each record, so it is removed at the end of the handshake.
        functions.SSL_CTX_set_msg_callback(pointer) { isSent, version, content, bytes, count, connection, _ in
            guard isSent == 0, content == handshakeMessage, let bytes else { return }
            OpenSSL.connection(of: connection)?.check(UnsafeRawBufferPointer(start: bytes, count: count), version)
        }
        if isServer {
            // Clients continue a session by a ticket, which costs the server no memory.
            _ = functions.SSL_CTX_ctrl(pointer, setSessionCacheMode, 0, nil)
            _ = functions.SSL_CTX_set_num_tickets(pointer, 1)
            // OpenSSL checks certificates in full handshakes only. So a client whose certificate has expired gets one.
            _ = functions.SSL_CTX_set_session_ticket_cb(
                pointer,
                nil,
                { connection, session, _, _, status, _ in
                    guard status == ticketIsGood || status == ticketIsOld else { return ignoreTicket }
                    let hasExpired = OpenSSL.connection(of: connection)?.hasExpiredPeer(session) ?? true
                    guard !hasExpired else { return ignoreTicket }
                    return status == ticketIsGood ? useTicket : useAndRenewTicket
                },
                nil
            )
            let name = Array("im-transports".utf8)
            _ = functions.SSL_CTX_set_session_id_context(pointer, name, UInt32(name.count))
            guard !settings.protocols.isEmpty else { return }
            functions.SSL_CTX_set_alpn_select_cb(
                pointer,
                { connection, selected, length, offered, count, _ in
                    guard let engine = OpenSSL.connection(of: connection), let offered else { return 2 }
                    return engine.selectProtocol(
                        UnsafeBufferPointer(start: offered, count: Int(count)),
                        selected,
                        length
                    )
                },
                nil
            )
        } else {
            let list = settings.protocols.flatMap { [UInt8(truncatingIfNeeded: $0.utf8.count)] + $0.utf8 }
            if !list.isEmpty { _ = functions.SSL_CTX_set_alpn_protos(pointer, list, UInt32(list.count)) }
            // OpenSSL calls this if the server requests a certificate and there is none for it.
            functions.SSL_CTX_set_client_cert_cb(pointer) { connection, _, _ in
                OpenSSL.connection(of: connection)?.hasSentNoCertificate = true
                return 0
            }
            guard settings.resumesSessions else { return }
            _ = functions.SSL_CTX_ctrl(pointer, setSessionCacheMode, clientSessions, nil)
            functions.SSL_CTX_sess_set_new_cb(pointer) { connection, session in
                guard let engine = OpenSSL.connection(of: connection), let session else { return 0 }
                engine.keep(session)
                return 1
            }
        }
    }

    /// Sets ciphers, groups and signatures. Groups and signatures are tried one by one, because OpenSSL refuses a list with
    /// one unknown name.
    private func setAlgorithms() throws(TLSSetupError) {
        let functions = library.functions.pointee
        guard functions.SSL_CTX_set_cipher_list(pointer, olderCiphers) == 1,
            functions.SSL_CTX_set_ciphersuites(pointer, newestCiphers) == 1
        else {
            throw .busy("OpenSSL cannot use the ciphers \(olderCiphers) and \(newestCiphers): \(library.errorText())")
        }
        var known = (isServer ? groups : groups + [groupOfServers]).filter { setText(setGroups, $0) }
        // An asterisk marks the groups for which a client sends a key share. Without any, that is the first group.
        if known.first == hybridGroup { known = known.map { $0 == hybridGroup || $0 == "X25519" ? "*\($0)" : $0 } }
        let usable = signatures.filter { setText(setSignatures, $0) }
        functions.ERR_clear_error()
        guard setText(setGroups, known.joined(separator: ":")),
            setText(setSignatures, usable.joined(separator: ":"))
        else {
            throw .busy(
                "OpenSSL cannot use the groups \(groups.joined(separator: ", ")), or the signatures "
                    + "\(signatures.joined(separator: ", ")): \(library.errorText())"
            )
        }
    }

    // MARK: Files

    private func loadAuthorities() throws(TLSSetupError) {
        let functions = library.functions.pointee
        let asksForCertificate = isServer ? settings.clientCertificates != .off : settings.verifiesServer
        guard asksForCertificate else { return }
        let mode =
            isServer && settings.clientCertificates == .required ? verifyPeer | failWithoutCertificate : verifyPeer
        functions.SSL_CTX_set_verify(pointer, mode) { isValid, verification in
            guard let engine = OpenSSL.connection(verifying: verification), let verification else { return 0 }
            return engine.verify(isValid != 0, verification) ? 1 : 0
        }
        guard let source = settings.authorities else {
            _ = functions.SSL_CTX_set_default_verify_paths(pointer)
            return
        }
        guard try source.kind("ca") == .file else {
            if functions.SSL_CTX_load_verify_dir(pointer, source.text) != 1 { throw wrong("ca", source) }
            return
        }
        try trust(source)
    }

    private func setText(_ command: Int32, _ text: String) -> Bool {
        text.withCString { text in
            library.functions.pointee.SSL_CTX_ctrl(pointer, command, 0, UnsafeMutableRawPointer(mutating: text)) == 1
        }
    }

    /// Trusts authorities in addition to those of the settings. It must not be called once the context is shared.
    package func trust(_ source: TLSFile) throws(TLSSetupError) {
        let functions = library.functions.pointee
        let store = functions.SSL_CTX_get_cert_store(pointer)
        try forEach("ca", source, .certificate) { certificate in
            _ = functions.X509_STORE_add_cert(store, certificate)
            // The names tell a client which of its certificates to send.
            if isServer { _ = functions.SSL_CTX_add_client_CA(pointer, certificate) }
            functions.X509_free(certificate)
        }
    }

    private func loadRevocationLists() throws(TLSSetupError) {
        guard let source = settings.revocationLists else { return }
        let functions = library.functions.pointee
        let store = functions.SSL_CTX_get_cert_store(pointer)
        var isComplete = true
        try forEach("crl", source, .revocationList) { list in
            if functions.X509_STORE_add_crl(store, list) != 1 { isComplete = false }
            functions.X509_CRL_free(list)
        }
        // A missing list would count as no revocation.
        guard isComplete else { throw .busy("OpenSSL cannot keep the lists of crl: \(library.errorText())") }
        _ = functions.X509_STORE_set_flags(store, checkRevocation)
    }

    private func loadCertificate(_ password: (@Sendable (String) -> String?)?) throws(TLSSetupError) {
        guard let source = settings.certificate else {
            guard settings.key == nil else { throw .setting("key", "is set without certificate") }
            guard !isServer else {
                throw .setting("certificate", "is missing; a server with TLS needs a certificate file in PEM format")
            }
            return
        }
        let functions = library.functions.pointee
        var isFirst = true
        var problem: String?
        try forEach("certificate", source, .certificate) { certificate in
            // A chain owns its certificates afterwards; the first one is copied by reference.
            if isFirst {
                if functions.SSL_CTX_use_certificate(pointer, certificate) != 1 { problem = library.errorText() }
                functions.X509_free(certificate)
            } else if functions.SSL_CTX_ctrl(pointer, addToChain, 0, certificate) != 1 {
                if problem == nil { problem = library.errorText() }
                functions.X509_free(certificate)
            }
            isFirst = false
        }
        if let problem { throw .setting("certificate", "has \(source), which cannot be used: \(problem)") }
        try loadKey(settings.key, of: source, password)
    }

    /// Loads the private key. Without a file of its own, it is in that of the certificate.
    private func loadKey(
        _ file: TLSFile?,
        of certificate: TLSFile,
        _ password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) {
        let functions = library.functions.pointee
        let source = file ?? certificate
        let question = PasswordQuestion(file: source.isText ? source.description : source.text, answer: password)
        let key = try withStream("key", source) { stream in
            functions.PEM_read_bio_PrivateKey_ex(
                stream,
                nil,
                { buffer, size, _, data in
                    guard let data, let buffer else { return -1 }
                    let question = Unmanaged<PasswordQuestion>.fromOpaque(data).takeUnretainedValue()
                    return question.answer(UnsafeMutableRawBufferPointer(start: buffer, count: Int(size)))
                },
                Unmanaged.passUnretained(question).toOpaque(),
                functions.library_context,
                nil
            )
        }
        guard let key else {
            guard question.wasAsked else {
                if file == nil, isMissing("key") {
                    throw .setting(
                        "key",
                        "is not set, and \(certificate) of certificate contains no private key in PEM format"
                    )
                }
                throw wrong("key", source)
            }
            let reason =
                password == nil
                ? "is encrypted, and no password was given in code" : "cannot be decrypted with the given password"
            throw .setting("key", "has \(source), which \(reason)")
        }
        defer { functions.EVP_PKEY_free(key) }
        guard functions.SSL_CTX_use_PrivateKey(pointer, key) == 1, functions.SSL_CTX_check_private_key(pointer) == 1
        else { throw .setting("key", "has \(source), which does not belong to the certificate in \(certificate)") }
    }

    private enum Kind { case certificate, revocationList }

    /// Reads the next object of a PEM text. It belongs to the library context, so that its key uses the algorithms there.
    private func read(_ kind: Kind, _ stream: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        let functions = library.functions.pointee
        switch kind {
        case .certificate:
            var object = functions.X509_new_ex(functions.library_context, nil)
            if object != nil, functions.PEM_read_bio_X509(stream, &object, nil, nil) != nil { return object }
            functions.X509_free(object)
        case .revocationList:
            var object = functions.X509_CRL_new_ex(functions.library_context, nil)
            if object != nil, functions.PEM_read_bio_X509_CRL(stream, &object, nil, nil) != nil { return object }
            functions.X509_CRL_free(object)
        }
        return nil
    }

    /// Calls `body` for each object of one kind in a PEM text. Throws if there is none.
    private func forEach(
        _ setting: String,
        _ source: TLSFile,
        _ kind: Kind,
        _ body: (UnsafeMutableRawPointer) -> Void
    ) throws(TLSSetupError) {
        let functions = library.functions.pointee
        let count = try withStream(setting, source) { stream in
            var count = 0
            while let object = read(kind, stream) {
                body(object)
                count += 1
            }
            return count
        }
        // The end of the text is reported as an error too.
        let isAtEnd = functions.ERR_peek_last_error() & 0x7f_ffff == noStartLine
        if !isAtEnd || count == 0 { throw wrong(setting, source) }
        functions.ERR_clear_error()
    }

    private func withStream<Value>(
        _ setting: String,
        _ source: TLSFile,
        _ body: (UnsafeMutableRawPointer) -> Value
    ) throws(TLSSetupError) -> Value {
        guard try source.kind(setting) == .file else { throw .setting(setting, "has \(source), which is a directory") }
        let functions = library.functions.pointee
        functions.ERR_clear_error()
        // OpenSSL copies no text, so it must live until the stream is freed.
        let text = Array(source.text.utf8)
        let stream =
            source.isText
            ? functions.BIO_new_mem_buf(text, Int32(clamping: text.count)) : functions.BIO_new_file(source.text, "r")
        guard let stream else { throw wrong(setting, source) }
        defer { _ = functions.BIO_free(stream) }
        return withExtendedLifetime(text) { body(stream) }
    }

    /// Whether the last error is that a text has no object of the kind of this setting.
    private func isMissing(_ setting: String) -> Bool {
        let problem = library.functions.pointee.ERR_peek_last_error() & 0x7f_ffff
        return problem == noStartLine || setting == "key" && problem == unsupported
    }

    private func wrong(_ setting: String, _ source: TLSFile) -> TLSSetupError {
        let kinds = ["ca": "certificate", "crl": "revocation list", "key": "private key"]
        let reason =
            isMissing(setting)
            ? "contains no \(kinds[setting] ?? "certificate") in PEM format"
            : "cannot be used: \(library.errorText(last: true))"
        return .setting(setting, "has \(source), which \(reason)")
    }
}

/// Asks the app for the password of an encrypted key.
private final class PasswordQuestion {
    private let file: String
    private let password: (@Sendable (String) -> String?)?
    private(set) var wasAsked = false

    init(file: String, answer: (@Sendable (String) -> String?)?) {
        (self.file, password) = (file, answer)
    }

    /// Stores the password in `buffer`. Returns its length, or -1 if there is none or it is too long.
    func answer(_ buffer: UnsafeMutableRawBufferPointer) -> Int32 {
        wasAsked = true
        guard let text = password?(file), text.utf8.count <= buffer.count else { return -1 }
        buffer.copyBytes(from: text.utf8)
        return Int32(text.utf8.count)
    }
}
