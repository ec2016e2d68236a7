/// The problem with the encryption of a connection. Its raw value is the `TransportError.detail` of the error, and
/// differs from all other numbers that a detail can be.
public enum TLSProblem: Int, Sendable, Hashable, CaseIterable {
    // The peer's certificate (RFC 5280, section 6; RFC 9525)

    /// A certificate of the chain has expired.
    case expired = 9001
    /// A certificate of the chain is not valid yet. Often the clock of this machine is wrong. This is the only problem
    /// of a certificate that a supervisor retries.
    case notYetValid = 9002
    /// The certificate is for other names than the host. Only subject alternative names count.
    case wrongHost = 9003
    /// The certificate is not for the IP address of the host.
    case wrongAddress = 9004
    /// No trusted authority has issued the chain.
    case unknownIssuer = 9005
    /// The certificate, or the authority in the chain, has signed itself and is not trusted.
    case selfSigned = 9006
    /// The peer has not sent the certificates between its own and the authority.
    case incompleteChain = 9007
    /// The issuer has revoked the certificate.
    case revoked = 9008
    /// No valid revocation list of the issuer is in the file of the option `crl`.
    case noRevocationList = 9009
    /// A key or a signature of the chain is too weak: RSA below 2048 bits, or SHA-1.
    case weakKey = 9010
    /// The chain is trusted, but none of its keys is one of the pins.
    case pinMismatch = 9011
    /// The certificate is not acceptable for another reason, which the sentence of the error contains.
    case invalidCertificate = 9012

    // This side's certificate

    /// The peer requires a certificate, and this side has sent none. On a server: the client has sent none.
    case certificateRequired = 9020
    /// The peer has not accepted the certificate of this side.
    case certificateRefused = 9021

    // The parameters that both sides need in common

    /// The two sides have no TLS version in common.
    case protocolVersion = 9030
    /// The two sides have no cipher, group or signature algorithm in common.
    case noCommonAlgorithm = 9031
    /// The two sides have no application protocol in common (ALPN, RFC 7301).
    case noCommonProtocol = 9032

    // The stream

    /// The peer has sent plain text, and no TLS.
    case plainText = 9040
    /// The stream ended without the peer's close_notify (RFC 8446, section 6.1), so bytes may be missing.
    case truncated = 9041
    /// The peer has sent a record that cannot be decrypted or breaks the protocol, or reports that this side has.
    case brokenRecord = 9042
    /// The peer has sent too many records that carry no data.
    case tooManyEmptyRecords = 9043
    /// The peer speaks TLS, and the scheme of this side is plain.
    case unexpectedTLS = 9044
    /// The connection ended after the peer had requested a renegotiation (RFC 5246, section 7.4.1.1), which is always
    /// refused. Servers request one to ask for a certificate, or for new keys.
    case renegotiation = 9045
    /// The server has requested a certificate on the open connection (RFC 8446, section 4.6.2), which is not supported.
    case postHandshakeAuthentication = 9046
    /// Any other problem, which the sentence of the error contains.
    case other = 9099
}
