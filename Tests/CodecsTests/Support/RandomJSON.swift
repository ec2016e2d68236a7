/// Random documents for JSON parsers, both valid and broken.
extension SeededGenerator {
    private mutating func pick<T>(_ choices: [T], else other: T) -> T { choices.randomElement(using: &self) ?? other }

    /// A document that follows the grammar of RFC 8259, but may exceed this package's limits.
    mutating func jsonDocument() -> [UInt8] {
        var text = ""
        appendValue(to: &text, depth: 4, isOutermost: !oneIn(10))
        guard oneIn(200) else { return Array(text.utf8) }
        return Array((String(repeating: "[", count: 64) + text + String(repeating: "]", count: 64)).utf8)
    }

    /// A document with one to three parts broken, which may be valid by chance.
    mutating func brokenJSONDocument() -> [UInt8] {
        var bytes = jsonDocument()
        if oneIn(4) {
            let text = String(decoding: bytes, as: UTF8.self)
            return Array(text.replacing("null", with: pick(Self.laxValues, else: "")).utf8)
        }
        for _ in 0..<Int.random(in: 1...3, using: &self) {
            let start = Int.random(in: 0...bytes.count, using: &self)
            let end = min(bytes.count, start + Int.random(in: 0...3, using: &self))
            switch Int.random(in: 0..<8, using: &self) {
            case 0: bytes.removeSubrange(start..<end)
            case 1: bytes.insert(contentsOf: bytes[start..<end], at: start)
            case 2: bytes.removeSubrange(oneIn(4) ? start..<bytes.count : start..<end)
            case 3: bytes.insert(UInt8(truncatingIfNeeded: next()), at: start)
            case 4: bytes = pick(Self.marks, else: []) + bytes
            default: bytes.replaceSubrange(oneIn(2) ? start..<start : start..<end, with: pick(Self.shards, else: []))
            }
        }
        return oneIn(100) ? bytes.flatMap { [$0, 0] } : bytes
    }

    private mutating func appendSpace(to text: inout String) {
        if oneIn(6) { text += pick([" ", "\n", "\t", "\r", " \r\n\t "], else: " ") }
    }

    private mutating func appendValue(to text: inout String, depth: Int, isOutermost: Bool = false) {
        appendSpace(to: &text)
        switch Int.random(in: 0..<(isOutermost ? 2 : depth > 0 ? 10 : 8), using: &self) {
        case 0 where depth > 0, 8: appendObject(to: &text, depth: depth - 1)
        case 1 where depth > 0, 9: appendArray(to: &text, depth: depth - 1)
        case 2, 3: text += pick(["null", "true", "false"], else: "null")
        case 4 where oneIn(10): text += "\"\u{FEFF}a\\n\u{FEFF}\""
        case 4, 5: appendString(to: &text)
        default: appendNumber(to: &text)
        }
        appendSpace(to: &text)
    }

    private mutating func appendArray(to text: inout String, depth: Int) {
        text += "["
        for index in 0..<Int.random(in: 0...4, using: &self) {
            if index > 0 { text += "," }
            appendValue(to: &text, depth: depth)
        }
        text += text.hasSuffix("[") && oneIn(4) ? " ]" : "]"
    }

    private mutating func appendObject(to text: inout String, depth: Int) {
        text += "{"
        for index in 0..<Int.random(in: 0...4, using: &self) {
            if index > 0 { text += "," }
            appendSpace(to: &text)
            if oneIn(2) { appendString(to: &text) } else { text += pick(Self.names, else: "\"\"") }
            appendSpace(to: &text)
            text += ":"
            appendValue(to: &text, depth: depth)
        }
        text += text.hasSuffix("{") && oneIn(4) ? " }" : "}"
    }

    private mutating func appendString(to text: inout String) {
        text += "\""
        for _ in 0..<Int.random(in: 0...(oneIn(4) ? 20 : 5), using: &self) { text += pick(Self.letters, else: "a") }
        text += "\""
    }

    private mutating func appendNumber(to text: inout String) {
        if oneIn(3) { return text += pick(Self.numbers, else: "0") }
        if oneIn(3) { text += "-" }
        text += oneIn(4) ? "0" : "\(Int.random(in: 1...9, using: &self))" + digits(upTo: oneIn(8) ? 30 : 8)
        if oneIn(3) { text += ".\(Int.random(in: 0...9, using: &self))" + digits(upTo: oneIn(8) ? 30 : 8) }
        guard oneIn(3) else { return }
        text +=
            pick(["e", "E", "e+", "E-", "e-", "E+0"], else: "e")
            + "\(Int.random(in: 0...(oneIn(4) ? 400 : 30), using: &self))"
    }

    private mutating func digits(upTo limit: Int) -> String {
        String((0..<Int.random(in: 0...limit, using: &self)).map { _ in pick(Array("0123456789"), else: "0") })
    }

    /// Texts that lax parsers accept as a value.
    private static let laxValues = [
        "NaN", "-NaN", "nan", "Infinity", "+Infinity", "-Infinity", "inf", "undefined", "nil", "None", "True", "FALSE",
        "nulL",
        "+1", "-", "01", "-01", ".5", "-.5", "1.", "1.e1", "1e", "0x1F", "1_000", "1f", "1n", "٣", "'a'", "a", "`a`",
        "/a/", "[1,]",
        "{\"a\":1,}", "{a:1}", "{'a':1}", "{1:1}", "[,1]", "[1,,2]", "[1 2]", "1//c\n", "1/*c*/", "1#c\n", "\"a\nb\"",
        "\"\t\"",
        "\"\u{1}\"", #""\a""#, #""\x41""#, #""\u{41}""#, #""\u12G4""#, #""\101""#, #""\uD800""#, #""\uDC00\uD800""#,
        #""\uDFFFa""#, "",
        "\u{A0}1", "1\u{2028}", "\u{FEFF}1", "\u{0}",
    ]
    private static let names = [#""""#, #""a""#, #""b""#, #""\u0061""#, #""é""#, "\"e\u{301}\"", #""你""#]
    private static let numbers = [
        "0", "-0", "-0.0", "0e9", "1e308", "-1e-308", "5e-324", "2e-324", "1e309", "-1e400", "1e-400",
        "9007199254740993",
        "18446744073709551616", "-9223372036854775809", "2.2250738585072011e-308", "0.1", "1E+2", "1e00000002",
        "123456789012345678901234567890e-10", "0.3000000000000000444089209850062616169452667236328125",
    ]
    private static let letters = [
        "a", "Z", "0", " ", "/", "'", "é", "e\u{301}", "你", "😀", "\u{7F}", "\u{2028}", "\u{FFFF}",
        "\u{10FFFF}",
        #"\""#, #"\\"#, #"\/"#, #"\b"#, #"\f"#, #"\n"#, #"\r"#, #"\t"#, #"\u0000"#, #"\u001F"#, #"\u00e9"#, #"\uD7FF"#,
        #"\uFFFE"#, #"\ud83d\uDE00"#, #"\uDBFF\udfff"#,
    ]
    /// Byte order marks, and other bytes that may not precede a document.
    private static let marks: [[UInt8]] = [
        [0xEF, 0xBB, 0xBF], [0xFE, 0xFF], [0xFF, 0xFE], [0], [0xC2, 0xA0], [0x0C], [0x0B],
    ]
    private static let shards: [[UInt8]] =
        [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "-", "+", ".", "e", "0", "1", "00", "-01", "1.", ".5", "1e",
            "0x1",
            "NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf", "null", "nul", "True", "undefined", "'a'", "a", "/",
            "//",
            "/**/", "#", "\n", "\t", "\u{0}", "\u{1F}", "\u{A0}", "\u{2028}", "\\u", "\\u12", "\\x41", "\\'", "\\a",
            "\\0",
            "\\uD800", "\\uDC00", "\\uDC00\\uD800", "\\uD800\\u0041", "\\uD800\\n", "\"\\uD800\"", "[[", "]]", "{}",
            "[]", ",,",
            ",]", ",}", ";", "\"a\":1", "\"\"", "1 2", "1_0", "1e999", "٣", "１",
        ].map { Array($0.utf8) } + [
            [0x80], [0xFF], [0xC0, 0xAF], [0xE0, 0x80, 0x80], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF],
            [0xF4, 0x90, 0x80, 0x80],
            [0xF8, 0x88, 0x80, 0x80, 0x80], [0xC3], [0xE2, 0x82], [0xF0, 0x9F, 0x98],
        ]
}
