import Testing

@testable import Protocols

@Suite("Masking")
struct MaskingTests {
    static let key: [UInt8] = [0x12, 0x34, 0x56, 0xf8]
    static let word: UInt32 = 0xf856_3412

    static func masked(_ bytes: [UInt8], from phase: Int = 0) -> [UInt8] {
        bytes.enumerated().map { $1 ^ key[($0 + phase) % 4] }
    }

    @Test("Every length and alignment is masked as the byte-wise definition says")
    func allAlignments() {
        let source = (0..<256).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 7) }
        for start in 0..<16 {
            for count in 0..<100 {
                let piece = Array(source[start..<start + count])
                var target = [UInt8](repeating: 0xee, count: 160)
                source.withUnsafeBytes { all in
                    target.withUnsafeMutableBytes { target in
                        guard let base = target.baseAddress else { return }
                        let from = UnsafeRawBufferPointer(rebasing: all[start..<start + count])
                        Masking.copy(from, to: base + (count + start) % 8, key: Self.word)
                    }
                }
                let begin = (count + start) % 8
                #expect(Array(target[begin..<begin + count]) == Self.masked(piece))
                #expect(
                    target[..<begin].allSatisfy { $0 == 0xee } && target[(begin + count)...].allSatisfy { $0 == 0xee }
                )
            }
        }
    }

    @Test("Masking in place gives the same bytes in any pieces")
    func inPieces() {
        let original = (0..<97).map { UInt8($0) }
        for cut in 0...97 {
            var bytes = original
            bytes.withUnsafeMutableBytes { all in
                Masking.apply(to: UnsafeMutableRawBufferPointer(rebasing: all[..<cut]), key: Self.word)
                let rest = Masking.advance(Self.word, by: cut)
                Masking.apply(to: UnsafeMutableRawBufferPointer(rebasing: all[cut...]), key: rest)
            }
            #expect(bytes == Self.masked(original))
        }
    }
}
