import Codecs

/// A value that can be drawn at random, and passed to Python as a literal without a codec.
protocol DrawnValue: WireValue {
    static func drawn(by random: inout SeededGenerator) -> Self
    /// A Python literal. Floating-point numbers are given by their bits, texts and bytes by hexadecimal digits.
    var literal: String { get }
}

extension FixedWidthInteger where Self: WireInteger {
    var literal: String { "\(self)" }
}

extension Int32: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Int32 { random.signed() }
}

extension Int64: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Int64 { random.signed() }
}

extension UInt32: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> UInt32 { random.number() }
}

extension UInt64: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> UInt64 { random.number() }
}

extension Bool: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Bool { random.oneIn(2) }
    var literal: String { self ? "True" : "False" }
}

extension Float: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Float { random.float() }
    var literal: String { "\(bitPattern)" }
}

extension Double: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Double { random.double() }
    var literal: String { "\(bitPattern)" }
}

extension String: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> String { random.text() }
    var literal: String { Array(utf8).literal }
}

extension [UInt8]: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> [UInt8] { random.bytes() }

    var literal: String {
        let digits = Array("0123456789abcdef".utf8)
        let text = flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return "'\(String(decoding: text, as: UTF8.self))'"
    }
}

extension Colour: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Colour { random.colour() }
    var literal: String { "\(rawValue)" }
}
