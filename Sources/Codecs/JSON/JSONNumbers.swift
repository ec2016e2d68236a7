// Numbers (RFC 8259, section 6).

extension JSONReader {
    /// A number of the input.
    struct Number {
        var start: Int
        var end: Int
        var isNegative = false
        /// All digits as one integer. It is valid while `isExact`.
        var mantissa: UInt64 = 0
        /// The power of ten by which `mantissa` is multiplied.
        var exponent = 0
        var isExact = true
        var isInteger = true

        @inline(__always)
        mutating func append(_ digit: UInt8) {
            let (product, overflows) = mantissa.multipliedReportingOverflow(by: 10)
            let (sum, overflowsToo) = product.addingReportingOverflow(UInt64(digit &- UInt8(ascii: "0")))
            if overflows || overflowsToo { isExact = false } else { mantissa = sum }
        }

        mutating func appendZeros(_ count: Int) {
            guard mantissa > 0 else { return }
            // Twenty zeros after any digit exceed 64 bits.
            for _ in 0..<min(count, 20) { append(UInt8(ascii: "0")) }
        }
    }

    @inline(__always)
    private var isDigit: Bool { position < end && base[position] &- UInt8(ascii: "0") < 10 }

    /// Reads a number and checks its grammar.
    mutating func readNumber() throws(CodecError) -> Number {
        var number = Number(start: position, end: position)
        if position < end, base[position] == UInt8(ascii: "-") {
            number.isNegative = true
            position += 1
        }
        guard isDigit else { throw position < end ? failure(.invalidNumber) : failure(.truncated) }
        if base[position] == UInt8(ascii: "0") {
            position += 1
            guard !isDigit else { throw failure(.invalidNumber) }
        } else {
            while isDigit {
                number.append(base[position])
                position += 1
            }
        }
        if position < end, base[position] == UInt8(ascii: ".") || base[position] | 0x20 == UInt8(ascii: "e") {
            try readFraction(&number)
        }
        number.end = position
        return number
    }

    private mutating func readFraction(_ number: inout Number) throws(CodecError) {
        number.isInteger = false
        if base[position] == UInt8(ascii: ".") {
            position += 1
            guard isDigit else { throw position < end ? failure(.invalidNumber) : failure(.truncated) }
            while isDigit {
                number.append(base[position])
                number.exponent -= 1
                position += 1
            }
        }
        guard position < end, base[position] | 0x20 == UInt8(ascii: "e") else { return }
        position += 1
        var isNegative = false
        if position < end, base[position] == UInt8(ascii: "+") || base[position] == UInt8(ascii: "-") {
            isNegative = base[position] == UInt8(ascii: "-")
            position += 1
        }
        guard isDigit else { throw position < end ? failure(.invalidNumber) : failure(.truncated) }
        var exponent = 0
        while isDigit {
            // No input has as many digits of a fraction as this exponent would need.
            if exponent < Int.max / 100 { exponent = exponent * 10 + Int(base[position] - UInt8(ascii: "0")) }
            position += 1
        }
        number.exponent += isNegative ? -exponent : exponent
    }

    /// Reads a number of eight to eighteen digits without sign, fraction and exponent, as most integers are. Returns
    /// `nil` and does not move for anything else.
    @inline(__always)
    private mutating func readDigits() -> UInt64? {
        guard end &- position > 8, base[position] != UInt8(ascii: "0"),
            var magnitude = JSONWord.number(JSONWord.loaded(base + position, count: 8))
        else { return nil }
        var index = position &+ 8
        let limit = min(end, index &+ 11)
        while index < limit {
            let digit = base[index] &- UInt8(ascii: "0")
            guard digit < 10 else {
                if base[index] == UInt8(ascii: ".") || base[index] | 0x20 == UInt8(ascii: "e") { return nil }
                position = index
                return magnitude
            }
            magnitude = magnitude &* 10 &+ UInt64(digit)
            index &+= 1
        }
        return nil
    }

    /// Reads an integer of at most 64 bits: its sign and its magnitude.
    @usableFromInline
    mutating func readWhole() throws(CodecError) -> (isNegative: Bool, magnitude: UInt64) {
        if let magnitude = readDigits() { return (false, magnitude) }
        let number = try readNumber()
        if number.isInteger, number.isExact { return (number.isNegative, number.mantissa) }
        guard !number.isInteger, let magnitude = whole(number) else { throw failure(.numberOutOfRange) }
        return (number.isNegative, magnitude)
    }

    /// The magnitude of a number like 1.0 or 1e3; `nil` if it is not an integer of 64 bits. It is computed digit by
    /// digit, because a double would round it.
    @inline(never)
    private func whole(_ number: Number) -> UInt64? {
        var digits = Number(start: number.start, end: number.end)
        // Zeros that count as digits only if another digit follows. Otherwise they raise the exponent.
        var zeros = 0
        for index in number.start..<number.end {
            let byte = base[index]
            if byte | 0x20 == UInt8(ascii: "e") { break }
            if byte == UInt8(ascii: "0") { zeros += 1 }
            guard byte >= UInt8(ascii: "1"), byte <= UInt8(ascii: "9") else { continue }
            digits.appendZeros(zeros)
            zeros = 0
            digits.append(byte)
            guard digits.isExact else { return nil }
        }
        guard digits.mantissa > 0 else { return 0 }
        let exponent = number.exponent + zeros
        guard exponent >= 0 else { return nil }
        digits.appendZeros(exponent)
        return digits.isExact ? digits.mantissa : nil
    }

    /// The double that is nearest to `number`.
    func double(_ number: Number) throws(CodecError) -> Double {
        // Both factors are exact, so one rounding is correct (Clinger, "How to Read Floating Point Numbers
        // Accurately").
        if number.isExact, number.mantissa <= 1 << 53, number.exponent.magnitude <= 22 {
            var power = 1.0
            for _ in 0..<number.exponent.magnitude { power *= 10 }
            let value = Double(number.mantissa)
            let scaled = number.exponent < 0 ? value / power : value * power
            return number.isNegative ? -scaled : scaled
        }
        guard let value = Double(text(number)), value.isFinite else { throw failure(.numberOutOfRange) }
        return value
    }

    /// The float that is nearest to `number`. A double in between would round twice.
    func float(_ number: Number) throws(CodecError) -> Float {
        if number.isExact, number.mantissa <= 1 << 24, number.exponent == 0 {
            return number.isNegative ? -Float(number.mantissa) : Float(number.mantissa)
        }
        guard let value = Float(text(number)), value.isFinite else { throw failure(.numberOutOfRange) }
        return value
    }

    private func text(_ number: Number) -> String {
        String(
            decoding: UnsafeBufferPointer(start: base + number.start, count: number.end - number.start),
            as: UTF8.self
        )
    }
}
