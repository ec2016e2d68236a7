import Primitives
import SocketIO

/// Which servers a connection trusts, apart from what the system itself demands. It decides without the system, so that a
/// test can.
struct TrustPolicy: Sendable, Hashable {
    /// The pins: SHA-256 of public keys (SubjectPublicKeyInfo). The server's chain must contain one of them, unless there is none.
    var pins: Set<[UInt8]> = []
    /// Whether the certificate is checked at all.
    var verifiesServer = true
    /// The authorities that are trusted in place of the system's, in DER; `nil` for those of the system.
    var authorities: [[UInt8]]?
    /// Whether only TLS 1.3 is allowed.
    var requiresTLS13 = false

    /// Returns why a server is refused; `nil` if it is trusted.
    func refusal(of chain: ServerChain) -> TLSFailure? {
        guard verifiesServer else { return nil }
        if let status = chain.status { return Self.problem(status, chain) }
        guard pins.isEmpty || chain.keyDigests.contains(where: pins.contains) else {
            let seen = chain.keyDigests.map { "sha256/" + String(decoding: Base64.encode($0), as: UTF8.self) }
            return TLSFailure(
                .pinMismatch,
                "the chain of \(chain.host) is trusted, but none of its keys is one of the \(pins.count) pins; its keys are "
                    + seen.joined(separator: ", ")
            )
        }
        return nil
    }

    /// The reason of a chain that the system does not trust, by its number (SecBase.h). The system reports many reasons as "not
    /// trusted".
    private static func problem(_ status: Int, _ chain: ServerChain) -> TLSFailure {
        let own = "the certificate of \(chain.host)"
        let (problem, sentence): (TLSProblem, String) =
            switch status {
            case -67818: (.expired, "\(own), or one in its chain, has expired")
            case -67819: (.notYetValid, "\(own) is not valid yet; check the clock of this device")
            case -67820: (.revoked, "the issuer has revoked \(own)")
            case -67602 where chain.isAddress: (.wrongAddress, "\(own) is not for this address")
            case -67602: (.wrongHost, "\(own) is for other hosts")
            case -67843 where chain.isSelfSigned, -25318 where chain.isSelfSigned:
                (.selfSigned, "\(own) has signed itself and is not trusted; to trust it, give it with ca")
            case -67843, -25318:
                (
                    .unknownIssuer,
                    "the issuer of \(own) is not trusted: give its authority with ca, or let the server send its whole chain"
                )
            case -67635: (.noRevocationList, "it is not known whether \(own) was revoked")
            default: (.invalidCertificate, "\(own) is not acceptable")
            }
        return TLSFailure(problem, "\(sentence) (OSStatus \(status): \(chain.explanation))")
    }
}

/// What the system has found about the certificates of a server.
struct ServerChain: Sendable, Hashable {
    /// The host of the URL.
    var host: String
    /// Whether ``host`` is an IP address.
    var isAddress = false
    /// Why the system does not trust it; `nil` if it does.
    var status: Int?
    /// The system's sentence about that.
    var explanation = ""
    /// Whether the server's certificate has signed itself.
    var isSelfSigned = false
    /// SHA-256 of the public keys of the chain, the server's own first.
    var keyDigests: [[UInt8]] = []
}

/// Public keys in the form over which a pin is made.
enum PublicKeyInfo {
    /// The kinds of keys whose SubjectPublicKeyInfo can be rebuilt. The system gives only the bits of a key.
    enum Kind: Sendable, Hashable {
        case rsa
        case p256, p384, p521
    }

    /// Returns the SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7) of a key.
    ///
    /// - Parameters:
    ///   - kind: the kind of the key.
    ///   - key: its bits: RSAPublicKey of PKCS #1, or the uncompressed point.
    static func bytes(_ kind: Kind, _ key: [UInt8]) -> [UInt8] {
        let ecPublicKey: [UInt8] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]
        let algorithm: [UInt8] =
            switch kind {
            case .rsa: [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00]
            case .p256: ecPublicKey + [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]
            case .p384: ecPublicKey + [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22]
            case .p521: ecPublicKey + [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23]
            }
        return element(0x30, element(0x30, algorithm) + element(0x03, [0] + key))
    }

    /// A value of DER with its tag and its length.
    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        guard count >= 0x80 else { return [tag, UInt8(count)] + content }
        var length: [UInt8] = []
        var rest = count
        while rest > 0 {
            length.insert(UInt8(truncatingIfNeeded: rest), at: 0)
            rest >>= 8
        }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}

/// Certificates in a text of PEM (RFC 7468).
enum PEMCertificates {
    /// The most certificates that are read.
    static let most = 1000

    /// Returns the certificates of a text, in DER; `nil` if there is none, if one is malformed, or if there are too many.
    static func read(_ text: String) -> [[UInt8]]? {
        var certificates: [[UInt8]] = []
        var block: [UInt8]?
        for line in text.utf8.split(whereSeparator: { $0 == 0x0a || $0 == 0x0d }) {
            if line.elementsEqual("-----BEGIN CERTIFICATE-----".utf8) {
                guard block == nil else { return nil }
                block = []
            } else if line.elementsEqual("-----END CERTIFICATE-----".utf8) {
                guard let digits = block, certificates.count < most,
                    let bytes = digits.withUnsafeBufferPointer({ Base64.decode($0) }), !bytes.isEmpty
                else { return nil }
                certificates.append(bytes)
                block = nil
            } else {
                block?.append(contentsOf: line.filter { $0 != 0x20 && $0 != 0x09 })
            }
        }
        return block == nil && !certificates.isEmpty ? certificates : nil
    }
}
