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

    /// A text that is short enough for a key or an identifier.
    mutating func key() -> String { String(String.UnicodeScalarView(text().unicodeScalars.prefix(60))) }

    mutating func bytes() -> [UInt8] {
        (0..<Int.random(in: 0...40, using: &self)).map { _ in UInt8(truncatingIfNeeded: next()) }
    }

    /// `original` with one to four bytes or runs changed.
    mutating func damaged(_ original: [UInt8]) -> [UInt8] {
        var bytes = original
        for _ in 0..<Int.random(in: 1...4, using: &self) where !bytes.isEmpty {
            let index = Int.random(in: 0..<bytes.count, using: &self)
            switch Int.random(in: 0..<5, using: &self) {
            case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &self)
            case 1: bytes[index] = UInt8(truncatingIfNeeded: next())
            case 2: bytes.remove(at: index)
            case 3: bytes.insert(UInt8(truncatingIfNeeded: next()), at: index)
            default: bytes.replaceSubrange(index..<min(index + 8, bytes.count), with: bytes.suffix(8))
            }
        }
        return bytes
    }

    mutating func list<T>(_ make: (inout Self) -> T) -> [T] {
        oneIn(2) ? [] : (0..<Int.random(in: 1...5, using: &self)).map { _ in make(&self) }
    }

    mutating func chatMessage() -> ChatMessage {
        var message = ChatMessage(
            id: key(),
            conversation: key(),
            sender: key(),
            sentAtMs: Int64(bitPattern: number()),
            text: text()
        )
        message.kind = .init(rawValue: oneIn(8) ? 77 : Int32.random(in: 0...8, using: &self))
        message.replyTo = oneIn(2) ? nil : key()
        message.mentions = list { $0.key() }
        message.attachment = bytes()
        message.attributes = Dictionary(list { ($0.key(), $0.text()) }) { $1 }
        return message
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

/// The `CodecError` that `body` throws, or `nil` if it throws none.
func codecError<R>(_ body: () throws -> R) -> CodecError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? CodecError
    }
}

func xml<M: WireMessage>(_ message: M) throws -> String {
    String(decoding: try XMLCodec().encode(message), as: UTF8.self)
}

func fromXML<M: WireMessage>(_ text: String, as type: M.Type = M.self, limits: CodecLimits = .init()) throws -> M {
    try XMLCodec(limits: limits).decode(type, from: Array(text.utf8))
}
