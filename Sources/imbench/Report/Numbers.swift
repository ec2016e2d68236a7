/// A number with exactly `digits` decimals, or with as many as are not zero if `trimmed`. A dash for what is no number.
func fixed(_ value: Double, _ digits: Int, trimmed: Bool = false) -> String {
    guard value.isFinite else { return "-" }
    let digits = min(max(digits, 0), 9)
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = (value.magnitude * scale).rounded()
    guard scaled < 9e18 else { return "\(value)" }
    let whole = UInt64(scaled)
    let sign = value < 0 && whole > 0 ? "-" : ""
    let unit = UInt64(scale)
    var fraction = String(whole % unit)
    fraction = String(repeating: "0", count: digits - min(digits, fraction.count)) + fraction
    if trimmed { while fraction.last == "0" { fraction.removeLast() } }
    return sign + String(whole / unit) + (digits == 0 || fraction.isEmpty ? "" : "." + fraction)
}

/// A number with about three significant digits and no exponent, as tables show it.
func shown(_ value: Double?) -> String {
    guard let value, value.isFinite else { return "-" }
    return fixed(value, value.magnitude < 9.995 ? 2 : value.magnitude < 999.5 ? 1 : 0)
}

/// A whole number, or a dash.
func shown(_ value: Int?) -> String { value.map(String.init) ?? "-" }

extension String {
    /// The text with spaces after it, or before it, up to `width` characters.
    func padded(to width: Int, alignedRight: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - count))
        return alignedRight ? space + self : self + space
    }
}
