import Testing

@testable import OutboxStores

@Suite("CRC-32C") struct CRC32CTests {
    @Test("The values are those of RFC 3720, appendix B.4")
    func vectors() {
        let vectors: [([UInt8], UInt32)] = [
            ([], 0), (Array("123456789".utf8), 0xe306_9283), ([UInt8](repeating: 0, count: 32), 0x8a91_36aa),
            ([UInt8](repeating: 0xff, count: 32), 0x62a8_ab43), ((0..<32).map { $0 }, 0x46dd_794e),
            ((0..<32).reversed(), 0x113f_db5c),
        ]
        for (bytes, value) in vectors { #expect(bytes.withUnsafeBytes { CRC32C.of($0) } == value) }
    }

    @Test("Bytes in pieces have the value of all bytes", arguments: 0...20)
    func pieces(first: Int) {
        let bytes = (0..<40).map { UInt8(truncatingIfNeeded: $0 * 7) }
        var sum = CRC32C()
        bytes[..<first].withUnsafeBytes { sum.add($0) }
        bytes[first...].withUnsafeBytes { sum.add($0) }
        #expect(sum.value == bytes.withUnsafeBytes { CRC32C.of($0) })
    }
}
