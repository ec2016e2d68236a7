import Codecs

/// SplitMix64 (Steele, Lea, Flood): a seed gives the same messages on every run.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func oneIn(_ n: Int) -> Bool { Int.random(in: 0..<n, using: &self) == 0 }

    mutating func number<I: FixedWidthInteger & UnsignedInteger>(_ type: I.Type = I.self) -> I {
        I(truncatingIfNeeded: next()) >> I(Int.random(in: 0..<I.bitWidth, using: &self))
    }

    mutating func text() -> String {
        let alphabet: [Character] = [
            "a", "Z", "7", " ", "\"", "\\", "/", "\n", "\u{1}", "\u{7F}", "é", "你", "👩‍👧", "\u{2028}",
        ]
        let limit = oneIn(10) ? 200 : 20
        return String(
            (0..<Int.random(in: 0...limit, using: &self)).map { _ in alphabet.randomElement(using: &self) ?? "?" }
        )
    }

    mutating func bytes() -> [UInt8] {
        (0..<Int.random(in: 0...40, using: &self)).map { _ in UInt8(truncatingIfNeeded: next()) }
    }

    mutating func list<T>(_ make: (inout Self) -> T) -> [T] {
        oneIn(2) ? [] : (0..<Int.random(in: 1...5, using: &self)).map { _ in make(&self) }
    }

    mutating func chatMessage() -> ChatMessage {
        var message = ChatMessage(
            id: text(),
            conversation: text(),
            sender: text(),
            sentAtMs: Int64(bitPattern: number()),
            text: text()
        )
        message.kind = .init(rawValue: oneIn(8) ? 77 : Int32.random(in: 0...8, using: &self))
        message.replyTo = oneIn(2) ? nil : text()
        message.mentions = list { $0.text() }
        message.attachment = bytes()
        message.attributes = Dictionary(list { ($0.text(), $0.text()) }) { $1 }
        return message
    }

    mutating func inner() -> Inner {
        Inner(number: Int32(bitPattern: number()), snakeCase: text())
    }

    mutating func colour() -> Colour { Colour(rawValue: Int32.random(in: -5...3, using: &self)) }

    mutating func allTypes(depth: Int = 2) -> AllTypes {
        var message = AllTypes()
        message.bool = oneIn(2)
        message.int32 = Int32(bitPattern: number())
        message.int64 = Int64(bitPattern: number())
        message.uint32 = number()
        message.uint64 = number()
        message.sint32 = Int32(bitPattern: number())
        message.sint64 = Int64(bitPattern: number())
        message.fixed32 = number()
        message.sfixed64 = Int64(bitPattern: number())
        message.float = oneIn(8) ? -.infinity : Float.random(in: -1e6...1e6, using: &self)
        message.double = oneIn(8) ? -0.0 : Double.random(in: -1e300...1e300, using: &self)
        message.string = text()
        message.bytes = bytes()
        message.colour = colour()
        message.inner = oneIn(2) ? nil : inner()
        message.maybeInt = oneIn(2) ? nil : 0
        message.maybeString = oneIn(2) ? nil : ""
        message.maybeColour = oneIn(2) ? nil : .red
        fillLists(of: &message, depth: depth)
        return message
    }

    private mutating func fillLists(of message: inout AllTypes, depth: Int) {
        message.ints = list { Int32(bitPattern: $0.number()) }
        message.sints = list { Int64(bitPattern: $0.number()) }
        message.fixeds = list { $0.number() }
        message.floats = list { Float(bitPattern: 0x3F00_0000 | $0.number(UInt32.self) >> 10) }
        message.doubles = list { Double.random(in: -1...1, using: &$0) }
        message.bools = list { $0.oneIn(2) }
        message.colours = list { $0.colour() }
        message.strings = list { $0.text() }
        message.blobs = list { $0.bytes() }
        message.inners = list { $0.inner() }
        message.byName = Dictionary(list { ($0.text(), Int64(bitPattern: $0.number())) }) { $1 }
        message.byNumber = Dictionary(list { (Int32(bitPattern: $0.number()), $0.text()) }) { $1 }
        message.byKey = Dictionary(list { ($0.number(UInt64.self), $0.inner()) }) { $1 }
        if depth > 0 { message.children = list { $0.allTypes(depth: depth - 1) } }
    }
}

/// Bytes from hexadecimal digits; white space is ignored.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue).map { UInt8($0) }
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func json<M: WireMessage>(_ message: M) throws -> String {
    String(decoding: try JSONCodec().encode(message), as: UTF8.self)
}

func fromJSON<M: WireMessage>(_ text: String, as type: M.Type = M.self, limits: CodecLimits = .init()) throws -> M {
    try JSONCodec(limits: limits).decode(type, from: Array(text.utf8))
}

/// What `body` fails with, if it fails with a `CodecError`.
func codecError<R>(_ body: () throws -> R) -> CodecError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? CodecError
    }
}
