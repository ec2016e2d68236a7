// Numbers as texts (XML Schema 1.1, part 2, sections 3.3.4, 3.3.5 and 3.4.13).

extension XMLReader {
    /// Whether a number begins with the first character of the text.
    @usableFromInline
    static func beginsNumber(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let first = text.first else { return false }
        return first == UInt8(ascii: "-") || first == UInt8(ascii: "+") || first &- UInt8(ascii: "0") < 10
    }

    /// The integer that the text is.
    @inlinable
    func integer<I: WireInteger>(_ text: UnsafeBufferPointer<UInt8>) throws(CodecError) -> I {
        let (isNegative, magnitude) = try whole(text)
        if !isNegative {
            if let value = I(exactly: magnitude) { return value }
        } else if magnitude <= 1 << 63, let value = I(exactly: Int64(truncatingIfNeeded: 0 &- magnitude)) {
            return value
        }
        throw CodecError(.numberOutOfRange, at: textStart)
    }

    /// The sign and the magnitude of an integer: an optional sign and digits.
    @usableFromInline
    func whole(_ text: UnsafeBufferPointer<UInt8>) throws(CodecError) -> (isNegative: Bool, magnitude: UInt64) {
        var index = Self.lengthOfSign(text)
        guard index < text.count else { throw CodecError(.invalidNumber, at: textStart) }
        var magnitude: UInt64 = 0
        var isExact = true
        while index < text.count {
            let digit = text[index] &- UInt8(ascii: "0")
            guard digit < 10 else { throw CodecError(.invalidNumber, at: textStart) }
            let (product, overflows) = magnitude.multipliedReportingOverflow(by: 10)
            let (sum, overflowsToo) = product.addingReportingOverflow(UInt64(digit))
            if overflows || overflowsToo { isExact = false }
            magnitude = sum
            index += 1
        }
        guard isExact else { throw CodecError(.numberOutOfRange, at: textStart) }
        return (text[0] == UInt8(ascii: "-"), magnitude)
    }

    /// The text of a decimal number, whose grammar is checked: an optional sign, digits with a point anywhere among them, and
    /// an optional exponent.
    func decimal(_ text: UnsafeBufferPointer<UInt8>) throws(CodecError) -> String {
        var index = Self.lengthOfSign(text)
        let whole = Self.lengthOfDigits(text, from: index)
        index += whole
        var digits = whole
        if index < text.count, text[index] == UInt8(ascii: ".") {
            let fraction = Self.lengthOfDigits(text, from: index + 1)
            index += 1 + fraction
            digits += fraction
        }
        var isValid = digits > 0
        if index < text.count, text[index] | 0x20 == UInt8(ascii: "e") {
            index += 1
            if index < text.count, text[index] == UInt8(ascii: "-") || text[index] == UInt8(ascii: "+") { index += 1 }
            let exponent = Self.lengthOfDigits(text, from: index)
            index += exponent
            if exponent == 0 { isValid = false }
        }
        guard isValid, index == text.count else { throw CodecError(.invalidNumber, at: textStart) }
        return String(decoding: text, as: UTF8.self)
    }

    /// `NaN` or an infinity; `nil` for anything else.
    static func nonFinite(_ text: UnsafeBufferPointer<UInt8>) -> Double? {
        if JSONReader.equal(text, "NaN") { return .nan }
        if JSONReader.equal(text, "INF") || JSONReader.equal(text, "+INF") { return .infinity }
        return JSONReader.equal(text, "-INF") ? -.infinity : nil
    }

    private static func lengthOfSign(_ text: UnsafeBufferPointer<UInt8>) -> Int {
        guard let first = text.first else { return 0 }
        return first == UInt8(ascii: "-") || first == UInt8(ascii: "+") ? 1 : 0
    }

    private static func lengthOfDigits(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        while index < text.count, text[index] &- UInt8(ascii: "0") < 10 { index += 1 }
        return index - start
    }
}
