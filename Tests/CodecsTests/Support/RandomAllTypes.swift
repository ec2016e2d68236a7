extension SeededGenerator {
    mutating func signed<I: FixedWidthInteger & SignedInteger>(_ type: I.Type = I.self) -> I {
        let magnitude: I.Magnitude = number()
        // Half of the values are inverted, so that small numbers have either sign.
        return oneIn(2) ? I(truncatingIfNeeded: magnitude) : ~I(truncatingIfNeeded: magnitude)
    }

    /// Any double except NaN, because NaN differs from itself.
    mutating func double() -> Double {
        switch Int.random(in: 0..<6, using: &self) {
        case 0: return Double(signed(Int64.self))
        case 1:
            let chosen: [Double] = [
                -0.0, 0.1, 1e22, 1e23, .leastNonzeroMagnitude, .leastNormalMagnitude, .greatestFiniteMagnitude,
                .infinity, -.infinity,
                9_007_199_254_740_991, 0x1p63, -0x1p64,
            ]
            return chosen.randomElement(using: &self) ?? 0
        case 2: return Double.random(in: -1...1, using: &self)
        default:
            let value = Double(bitPattern: next())
            return value.isNaN ? 0.5 : value
        }
    }

    /// Any float except NaN and the two greatest, because Python's JSON rejects their shortest digits as too large.
    mutating func float() -> Float {
        switch Int.random(in: 0..<4, using: &self) {
        case 0: return Float(signed(Int32.self))
        case 1:
            let chosen: [Float] = [
                -0.0, 0.1, .leastNonzeroMagnitude, .leastNormalMagnitude, 16_777_215, .infinity, -.infinity,
            ]
            return chosen.randomElement(using: &self) ?? 0
        default:
            let value = Float(bitPattern: UInt32(truncatingIfNeeded: next()))
            return value.isNaN || value.magnitude == .greatestFiniteMagnitude ? 0.5 : value
        }
    }

    mutating func inner() -> Inner { Inner(number: signed(), snakeCase: text()) }

    mutating func colour() -> Colour { Colour(rawValue: Int32.random(in: -5...3, using: &self)) }

    /// A message in which each field has a value with a chance of one in `n`.
    mutating func allTypes(depth: Int = 2, oneIn n: Int = 1) -> AllTypes {
        var message = AllTypes()
        fill(&message.bool, n) { $0.oneIn(2) }
        fill(&message.int32, n) { $0.signed() }
        fill(&message.int64, n) { $0.signed() }
        fill(&message.uint32, n) { $0.number() }
        fill(&message.uint64, n) { $0.number() }
        fill(&message.sint32, n) { $0.signed() }
        fill(&message.sint64, n) { $0.signed() }
        fill(&message.fixed32, n) { $0.number() }
        fill(&message.sfixed64, n) { $0.signed() }
        fill(&message.sfixed32, n) { $0.signed() }
        fill(&message.fixed64, n) { $0.number() }
        fill(&message.float, n) { $0.float() }
        fill(&message.double, n) { $0.double() }
        fill(&message.string, n) { $0.text() }
        fill(&message.bytes, n) { $0.bytes() }
        fill(&message.colour, n) { $0.colour() }
        fill(&message.inner, n * 2) { $0.inner() }
        fill(&message.maybeInt, n * 2) { $0.oneIn(2) ? 0 : $0.signed() }
        fill(&message.maybeString, n * 2) { $0.oneIn(2) ? "" : $0.text() }
        fill(&message.maybeColour, n * 2) { $0.oneIn(2) ? .red : $0.colour() }
        fill(&message.maybeDouble, n * 2) { $0.oneIn(2) ? 0 : $0.double() }
        fill(&message.maybeBytes, n * 2) { $0.oneIn(2) ? [] : $0.bytes() }
        fillLists(of: &message, n)
        fillMaps(of: &message, n)
        if depth > 0 { fill(&message.children, n) { $0.list { $0.allTypes(depth: depth - 1, oneIn: n) } } }
        return message
    }

    private mutating func fill<T>(_ value: inout T, _ n: Int, _ make: (inout Self) -> T) {
        if oneIn(n) { value = make(&self) }
    }

    private mutating func fillLists(of message: inout AllTypes, _ n: Int) {
        fill(&message.ints, n) { $0.list { $0.signed() } }
        fill(&message.sints, n) { $0.list { $0.signed() } }
        fill(&message.fixeds, n) { $0.list { $0.number() } }
        fill(&message.longs, n) { $0.list { $0.signed() } }
        fill(&message.counts, n) { $0.list { $0.number() } }
        fill(&message.sizes, n) { $0.list { $0.number() } }
        fill(&message.deltas, n) { $0.list { $0.signed() } }
        fill(&message.words, n) { $0.list { $0.number() } }
        fill(&message.offsets, n) { $0.list { $0.signed() } }
        fill(&message.times, n) { $0.list { $0.signed() } }
        fill(&message.floats, n) { $0.list { $0.float() } }
        fill(&message.doubles, n) { $0.list { $0.double() } }
        fill(&message.bools, n) { $0.list { $0.oneIn(2) } }
        fill(&message.colours, n) { $0.list { $0.colour() } }
        fill(&message.strings, n) { $0.list { $0.text() } }
        fill(&message.blobs, n) { $0.list { $0.bytes() } }
        fill(&message.inners, n) { $0.list { $0.inner() } }
    }

    private mutating func fillMaps(of message: inout AllTypes, _ n: Int) {
        fill(&message.byName, n) { $0.map { ($0.key(), $0.signed()) } }
        fill(&message.byNumber, n) { $0.map { ($0.signed(), $0.text()) } }
        fill(&message.byKey, n) { $0.map { ($0.number(), $0.inner()) } }
        fill(&message.byFlag, n) { $0.map { ($0.oneIn(2), $0.oneIn(2)) } }
        fill(&message.byLong, n) { $0.map { ($0.signed(), $0.double()) } }
        fill(&message.byCount, n) { $0.map { ($0.number(), $0.bytes()) } }
        fill(&message.colourByName, n) { $0.map { ($0.key(), $0.colour()) } }
        fill(&message.deltaByNumber, n) { $0.map { ($0.signed(), $0.signed()) } }
        fill(&message.timeByName, n) { $0.map { ($0.key(), $0.signed()) } }
        fill(&message.byDelta, n) { $0.map { ($0.signed(), $0.oneIn(2)) } }
        fill(&message.byOffset, n) { $0.map { ($0.signed(), $0.signed()) } }
        fill(&message.byWord, n) { $0.map { ($0.number(), $0.text()) } }
        fill(&message.byHash, n) { $0.map { ($0.number(), $0.inner()) } }
        fill(&message.byPlace, n) { $0.map { ($0.signed(), $0.bytes()) } }
        fill(&message.byTime, n) { $0.map { ($0.signed(), $0.double()) } }
    }

    mutating func map<K: Hashable, T>(_ make: (inout Self) -> (K, T)) -> [K: T] {
        Dictionary(list(make)) { $1 }
    }
}
