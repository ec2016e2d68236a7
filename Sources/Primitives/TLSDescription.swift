/// The result of a TLS handshake.
public struct TLSDescription: Sendable, Hashable {
    /// The version: `TLSv1.3`.
    public var version: String
    /// The cipher suite: `TLS_AES_256_GCM_SHA384`.
    public var cipher: String
    /// The agreed application protocol (ALPN, RFC 7301); `nil` if none was agreed.
    public var applicationProtocol: String?
    /// Whether an earlier session was continued, which takes less time than a full handshake.
    public var isResumed: Bool
    /// Whether this side has checked the certificate of the server. On a server, whether it has checked the certificate
    /// of the client.
    public var isVerified: Bool
    /// The peer's certificate, if it has sent one.
    public var peer: TLSCertificate?

    /// Creates the description of a connection.
    package init(
        version: String,
        cipher: String,
        applicationProtocol: String? = nil,
        isResumed: Bool = false,
        isVerified: Bool,
        peer: TLSCertificate? = nil
    ) {
        (self.version, self.cipher, self.applicationProtocol) = (version, cipher, applicationProtocol)
        (self.isResumed, self.isVerified, self.peer) = (isResumed, isVerified, peer)
    }
}

/// The fields of a certificate that people look at.
public struct TLSCertificate: Sendable, Hashable {
    /// The subject: `CN=chat.example,O=Example` (RFC 4514). It ends with `…` if it is longer than 256 bytes.
    public var subject: String
    /// The common name of the subject; `nil` if it has none, or one of more than 255 bytes.
    public var commonName: String?
    /// The subject alternative names, each after its kind: `DNS:chat.example`, `IP:192.0.2.1`, `email:ann@example.org`,
    /// `URI:spiffe://example/chat`. Names of other kinds, names of more than 255 bytes, and those after the first 64 are
    /// left out. Compare whole elements.
    public var names: [String]
    /// The subject of the issuer, with the same limit.
    public var issuer: String
    /// When its validity begins, in UTC: `2026-01-31 12:00:00`.
    public var validFrom: String
    /// When its validity ends, in UTC.
    public var validTo: String
    /// SHA-256 of the public key (its SubjectPublicKeyInfo, RFC 7469, section 2.4).
    public var keyDigest: [UInt8]
    /// The pin of the public key, as in the option `pin`: `sha256/` and ``keyDigest`` in Base64.
    public var pin: String { "sha256/" + String(decoding: Base64.encode(keyDigest), as: UTF8.self) }

    /// Creates a certificate from its fields.
    package init(
        subject: String,
        commonName: String?,
        names: [String],
        issuer: String,
        validFrom: String,
        validTo: String,
        keyDigest: [UInt8]
    ) {
        (self.subject, self.commonName, self.names, self.issuer) = (subject, commonName, names, issuer)
        (self.validFrom, self.validTo, self.keyDigest) = (validFrom, validTo, keyDigest)
    }
}
