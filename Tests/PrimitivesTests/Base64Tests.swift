import Primitives
import Testing

@Suite("Base64")
struct Base64Tests {
    private func decoded(_ text: String) -> [UInt8]? {
        Array(text.utf8).withUnsafeBufferPointer(Base64.decode)
    }

    @Test(
        "Base64 encodes and decodes the examples of RFC 4648",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ]
    )
    func examples(plain: String, encoded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == Array(encoded.utf8))
        #expect(decoded(encoded) == Array(plain.utf8))
    }

    @Test(
        "Decoding rejects text that is not Base64",
        arguments: ["Z", "Zg=", "=", "====", "Zg==Zg==", "Z===", "Zm9v=", "Zm 9", "=m9v", "Zm=v", "Zh=="]
    )
    func broken(text: String) {
        #expect(decoded(text) == nil)
    }

    @Test("Every byte value survives a round trip")
    func allBytes() {
        for count in 0..<260 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ count) }
            #expect(Base64.encode(bytes).withUnsafeBufferPointer(Base64.decode) == bytes)
        }
    }
}
