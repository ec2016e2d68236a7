/// How many columns of a terminal a character takes: 0, 1 or 2. The C library's `wcwidth` depends on the locale, which may be
/// missing.
extension Character {
    package var columns: Int {
        var width = 0
        for scalar in unicodeScalars {
            // A variation selector shows the character before it as a picture.
            width = max(width, scalar.value == 0xfe0f && width > 0 ? 2 : scalar.columns)
        }
        return width
    }
}

extension StringProtocol {
    /// How many columns of a terminal the text takes.
    package var columns: Int { reduce(0) { $0 + $1.columns } }
}

extension Unicode.Scalar {
    /// The scripts whose characters are wide (Unicode Standard Annex #11, East Asian Width W and F).
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115f, 0x2e80...0x303e, 0x3041...0x4dbf, 0x4e00...0xa4cf, 0xa960...0xa97f, 0xac00...0xd7a3,
        0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60, 0xffe0...0xffe6, 0x17000...0x18d08, 0x1b000...0x1b2fb,
        0x20000...0x3fffd,
    ]

    fileprivate var columns: Int {
        guard value >= 0x300 else { return 1 }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: break
        }
        // The vowels and final consonants of Korean syllables join the character before them.
        if (0x1160...0x11ff).contains(value) { return 0 }
        return properties.isEmojiPresentation || Self.wide.contains { $0.contains(value) } ? 2 : 1
    }
}
