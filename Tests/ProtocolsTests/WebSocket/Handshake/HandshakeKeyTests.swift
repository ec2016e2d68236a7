import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("SHA-1 and the handshake key")
struct HandshakeKeyTests {
    static let hexadecimal = Array("0123456789abcdef".utf8)

    @Test(
        "SHA-1 gives the digests of FIPS 180",
        arguments: [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
            ),
            (String(repeating: "a", count: 1000), "291e9a6c66994949b57ba5e650361e98fc36b1ba"),
            (String(repeating: "a", count: 64), "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            (String(repeating: "a", count: 55), "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (String(repeating: "a", count: 56), "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
        ]
    )
    func digest(message: String, expected: String) {
        let digits = SHA1.digest(text(message)).flatMap {
            [Self.hexadecimal[Int($0 >> 4)], Self.hexadecimal[Int($0 & 15)]]
        }
        #expect(String(decoding: digits, as: UTF8.self) == expected)
    }

    @Test("The key of RFC 6455, section 1.3, gets the answer that is given there")
    func acceptKey() {
        #expect(HandshakeKey.accept(for: sampleKey) == sampleAccept)
        #expect(HandshakeKey.isValid(sampleKey))
        #expect(!HandshakeKey.isValid("c2hvcnQ="))
        #expect(!HandshakeKey.isValid("dGhlIHNhbXBsZSBub25jZQ"))
        #expect(!HandshakeKey.isValid("dGhlIHNhbXBsZSBub25j-w=="))
        #expect(!HandshakeKey.isValid("dGhlIHNhbXBsZSBub25jZQ=A"))
        #expect(HandshakeKey.areEqual(sampleAccept, sampleAccept))
        #expect(!HandshakeKey.areEqual(sampleAccept, sampleAccept.lowercased()))
        #expect(!HandshakeKey.areEqual(sampleAccept, ""))
    }

    @Test("Generated keys are valid and differ")
    func generatedKeys() {
        var random = RandomSource.seeded(3)
        let keys = (0..<50).map { _ in HandshakeKey.generate(&random) }
        #expect(keys.allSatisfy(HandshakeKey.isValid))
        #expect(Set(keys).count == 50)
    }
}
