import Primitives

/// Translates the errors of OpenSSL.
enum OpenSSLErrors {
    /// X509_V_ERR_UNABLE_TO_GET_CRL.
    static let noRevocationList: Int32 = 3
    /// X509_V_ERR_CERT_REJECTED, which the peer receives as the alert bad_certificate.
    static let rejectedByApplication: Int32 = 28

    /// How many names of a certificate a sentence contains.
    private static let shownNames = 8

    /// Returns why a certificate was rejected.
    ///
    /// - Parameters:
    ///   - error: the number (openssl/x509_vfy.h).
    ///   - depth: the place in the chain; 0 for the peer's own certificate.
    ///   - chainLength: how many certificates the chain has so far.
    ///   - certificate: the certificate that was rejected.
    ///   - host: the name of the server; empty at a server.
    ///   - text: OpenSSL's sentence.
    static func rejection(
        _ error: Int32,
        depth: Int,
        chainLength: Int,
        _ certificate: OpenSSLCertificate?,
        host: String,
        text: String
    ) -> TLSFailure {
        let owner = host.isEmpty ? "the client" : host
        let own = depth == 0 ? "the certificate of \(owner)" : "certificate \(depth) in the chain of \(owner)"
        let validFrom = certificate?.validFrom ?? "", validTo = certificate?.validTo ?? ""
        let issuer = certificate?.issuer ?? ""
        let (problem, sentence): (TLSProblem, String) =
            switch error {
            case 10: (.expired, "\(own) expired on \(validTo) UTC")
            case 9: (.notYetValid, "\(own) is not valid before \(validFrom) UTC; check the clock of this machine")
            case 62: (.wrongHost, "the certificate is not for \(host), but for \(names(certificate))")
            case 64: (.wrongAddress, "the certificate is not for the address \(host), but for \(names(certificate))")
            case 18: (.selfSigned, "\(own) has signed itself and is not trusted; to trust it, name its file with ca")
            case 19:
                (
                    .selfSigned,
                    "the authority in the chain of \(owner) is not trusted; to trust it, name its file with ca"
                )
            case 2, 20, 21:
                unknownIssuer(own, issuer, isIncomplete: depth == 0 && certificate?.namesIssuerFile == true)
            case 23: (.revoked, "the issuer has revoked \(own)")
            case 3, 11, 12, 33:
                (.noRevocationList, "the file of crl has no valid list of the issuer '\(issuer)' (\(text))")
            case 66, 67, 68: (.weakKey, "\(own) has a key or a signature that is too weak (\(text))")
            default: (.invalidCertificate, "\(own) is not acceptable: \(text)")
            }
        return TLSFailure(problem, sentence + facts(certificate))
    }

    private static func unknownIssuer(_ own: String, _ issuer: String, isIncomplete: Bool) -> (TLSProblem, String) {
        isIncomplete
            ? (
                .incompleteChain,
                "\(own) was sent without the certificate of its issuer '\(issuer)': the peer must send its whole chain, or, "
                    + "if the issuer is an authority of your own, name its file with ca"
            )
            : (
                .unknownIssuer,
                "the issuer of \(own), '\(issuer)', is not trusted: name the file of its authority with ca, or let the peer send its whole chain"
            )
    }

    private static func names(_ certificate: OpenSSLCertificate?) -> String {
        let names = certificate?.names ?? []
        guard !names.isEmpty else {
            return "no name (it has no subject alternative names, and the common name does not count)"
        }
        return names.prefix(shownNames).joined(separator: ", ") + (names.count > shownNames ? ", …" : "")
    }

    /// The subject, the issuer and the dates of a certificate, behind a sentence.
    static func facts(_ certificate: OpenSSLCertificate?) -> String {
        guard let certificate else { return "" }
        return " (subject '\(certificate.subject)', issuer '\(certificate.issuer)', "
            + "valid from \(certificate.validFrom) to \(certificate.validTo) UTC)"
    }

    /// The situation in which a connection broke.
    struct Situation {
        /// Whether the server has requested a certificate, and this side has sent none.
        var hasSentNoCertificate = false
        /// Whether the peer has requested a renegotiation, and this side has refused it.
        var hasRefusedRenegotiation = false
        /// Whether the handshake was complete.
        var isComplete = false
    }

    /// Returns the failure for a number in the error queue of a broken connection.
    ///
    /// - Parameters:
    ///   - number: the first number in the queue.
    ///   - settings: the settings of this side.
    ///   - text: OpenSSL's sentence.
    ///   - situation: the situation in which the connection broke.
    static func failure(
        _ number: UInt,
        _ settings: TLSSettings,
        _ text: String,
        _ situation: Situation
    ) -> TLSFailure {
        let isClient = settings.side == .client
        let peer = isClient ? "server" : "client"
        // ERR_GET_REASON of openssl/err.h.
        let reason = Int(number & 0x7f_ffff)
        if situation.hasRefusedRenegotiation {
            let advice =
                isClient ? "; let the server request certificates in its first handshake, or speak TLS 1.3" : ""
            return TLSFailure(
                .renegotiation,
                "the connection ended after the \(peer) requested a renegotiation, which this side refuses (\(text))\(advice)"
            )
        }
        if (1000...1255).contains(reason) { return alert(reason - 1000, peer, situation.hasSentNoCertificate) }
        let version = settings.isDatagram ? "DTLS 1.2" : "TLS \(settings.minimumVersion.rawValue) or later"
        return switch reason {
        case 258, 267, 396, 191, 292:
            TLSFailure(
                .protocolVersion,
                "the \(peer) does not speak \(version), which is the oldest version allowed"
            )
        case 199: TLSFailure(.certificateRequired, "the client has sent no certificate, and this server requires one")
        case 193, 118, 101, 253, 359, 376, 378, 410:
            TLSFailure(
                .noCommonAlgorithm,
                "there is no cipher, group or signature algorithm in common with the \(peer) (\(text))"
            )
        case 235:
            TLSFailure(.noCommonProtocol, "the \(peer) offers no application protocol (ALPN) that this side speaks")
        // The only other messages of a server on an open connection are tickets and new keys (RFC 8446, section 4.6).
        case 244 where situation.isComplete && isClient:
            TLSFailure(
                .postHandshakeAuthentication,
                "the server sent an unexpected handshake message on the open connection, probably a request for a "
                    + "certificate (post-handshake authentication), which is not supported: let it request certificates in "
                    + "the handshake"
            )
        case 152:
            TLSFailure(
                .brokenRecord,
                "the \(peer) has announced a message of the handshake that is too long; its certificates may have 18 KiB "
                    + "together"
            )
        case 312: TLSFailure(.other, "the \(peer) did not answer the repetitions of the handshake")
        case 281, 129, 130, 147: TLSFailure(.brokenRecord, "a record of the \(peer) cannot be decrypted (\(text))")
        default: TLSFailure(.brokenRecord, "the \(peer) broke the TLS protocol (\(text))")
        }
    }

    /// Returns the failure for an alert of the peer (RFC 8446, section 6.2).
    private static func alert(_ number: Int, _ peer: String, _ hasSentNoCertificate: Bool) -> TLSFailure {
        switch number {
        // TLS 1.2 has no alert of its own for a missing certificate. Servers send handshake_failure or bad_certificate.
        case 116,
            40 where hasSentNoCertificate, 42 where hasSentNoCertificate:
            TLSFailure(
                .certificateRequired,
                "the \(peer) requires a certificate of this side: set certificate and key (TLS alert \(number))"
            )
        case 40, 71:
            TLSFailure(
                .noCommonAlgorithm,
                "the \(peer) finds no cipher, group or signature algorithm in common"
                    + (peer == "client" ? ", or does not accept this certificate" : "") + " (TLS alert \(number))"
            )
        case 70:
            TLSFailure(
                .protocolVersion,
                "the \(peer) does not allow the TLS versions of this side"
                    + (peer == "server" ? ", or its port speaks no TLS" : "") + " (TLS alert 70)"
            )
        case 42...46, 48, 49, 113, 114:
            TLSFailure(
                .certificateRefused,
                "the \(peer) does not accept the certificate of this side (TLS alert \(number))"
            )
        case 120:
            TLSFailure(
                .noCommonProtocol,
                "the \(peer) speaks none of the offered application protocols (ALPN, TLS alert 120)"
            )
        case 10, 20, 22, 47, 50, 51:
            TLSFailure(.brokenRecord, "the \(peer) reports a broken record (TLS alert \(number))")
        default: TLSFailure(.other, "the \(peer) ended the connection with TLS alert \(number)")
        }
    }
}
