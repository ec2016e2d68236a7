import Primitives
import SocketIO
import TrialCertificates

/// The TLS handshake of a hostile client: an engine of OpenSSL whose records are the client's output.
final class HostileHandshake {
    private let engine: any TLSEngine
    private var input: [UInt8] = []

    /// `nil` without OpenSSL.
    init?(_ context: (any TLSContext)?) {
        guard let engine = context?.makeEngine(host: "localhost", port: 1) else { return nil }
        self.engine = engine
    }

    /// The records that follow these received bytes; the ClientHello without any.
    func answer(_ received: some Collection<UInt8>) -> [UInt8] {
        input += received
        var answer: [UInt8] = []
        var mayContinue = true
        while mayContinue {
            answer += [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
                var output = TLSOutput(UnsafeMutableRawBufferPointer(buffer))
                let step = input.withUnsafeBytes { engine.handshake($0, &output) }
                input.removeFirst(step.consumed)
                if case .needsOutput = step.end {} else { mayContinue = step.consumed > 0 && !input.isEmpty }
                if case .done = step.end { mayContinue = false }
                count = output.count
            }
        }
        return answer
    }

    /// A client that sends a chain of certificates, which no authority has issued that a server trusts.
    static func withChain(_ count: Int) -> (any TLSContext)? {
        guard let other = try? ThrowAwayAuthority("Another authority"),
            let own = try? other.issue(.init("mallory"))
        else { return nil }
        var settings = TLSSettings(.client)
        let foreign = (1..<max(count, 1)).compactMap { try? other.issue(.init("foreign \($0)")).certificate }
        settings.certificate = TLSFile(([own.certificate] + foreign).joined())
        settings.key = TLSFile(own.key)
        return context(settings)
    }

    private static func context(_ settings: TLSSettings) -> (any TLSContext)? {
        var settings = settings
        settings.verifiesServer = false
        return try? OpenSSL.shared.makeContext(settings, password: nil)
    }
}

/// A ClientHello of TLS 1.3 (RFC 8446, section 4.1.2) that offers one group and has a key share for it. It is the same each
/// time, as a recorded one would be.
struct ReplayedHello: Sendable {
    /// The number of the group (RFC 8446, section 4.2.7).
    private let group: UInt16
    private let share: [UInt8]

    /// X25519 (RFC 7748), with the base point, which every other client also uses to make its key.
    static let x25519 = ReplayedHello(group: 0x001d, share: [9] + zeros(31))
    /// P-256, and the hybrid with ML-KEM whose encapsulation key has the coefficients zero.
    static let offered = [
        ReplayedHello(group: 0x0017, share: point(p256)),
        ReplayedHello(group: 0x11ec, share: zeros(1184) + [9] + zeros(31)),
    ]
    /// P-384, P-521 and X448.
    static let curves = [
        ReplayedHello(group: 0x0018, share: point(p384)), ReplayedHello(group: 0x0019, share: point(p521)),
        ReplayedHello(group: 0x001e, share: [5] + zeros(55)),
    ]
    /// The groups of RFC 7919, from ffdhe2048 to ffdhe8192.
    static let fields = [2048, 3072, 4096, 6144, 8192].enumerated().map { index, bits in
        ReplayedHello(group: 0x0100 + UInt16(index), share: [0x5a] + [UInt8](repeating: 0xa5, count: bits / 8 - 1))
    }

    /// The record.
    var record: [UInt8] {
        let versions = field(0x002b, [2, 3, 4])
        let groups = field(0x000a, Self.sized([UInt8(group >> 8), UInt8(group & 0xff)]))
        // ecdsa_secp256r1_sha256, rsa_pss_rsae_sha256, ed25519
        let signatures = field(0x000d, Self.sized([4, 3, 8, 4, 8, 7]))
        let shares = field(0x0033, Self.sized([UInt8(group >> 8), UInt8(group & 0xff)] + Self.sized(share)))
        // The version of TLS 1.2, a random number, no session, TLS_AES_128_GCM_SHA256, and no compression.
        let hello =
            [3, 3] + [UInt8](repeating: 7, count: 32) + [0] + Self.sized([0x13, 1]) + [1, 0]
            + Self.sized(versions + groups + signatures + shares)
        return [22, 3, 1] + Self.sized([1, 0] + Self.sized(hello))
    }

    private func field(_ number: UInt8, _ content: [UInt8]) -> [UInt8] { [0, number] + Self.sized(content) }

    private static func sized(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xff)] + bytes
    }

    private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

    /// An uncompressed point, from its coordinates in hexadecimal digits.
    private static func point(_ digits: String) -> [UInt8] {
        let values = digits.utf8.map { $0 < 0x3a ? $0 - 0x30 : $0 - 0x57 }
        return [4] + stride(from: 0, to: values.count - 1, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }

    // The base points of the curves (SEC 2, sections 2.4.2, 2.5.1 and 2.6.1).
    private static let p256 =
        "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
    private static let p384 =
        "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7"
        + "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f"
    private static let p521 =
        "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e"
        + "7e31c2e5bd66"
        + "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be"
        + "94769fd16650"
}
