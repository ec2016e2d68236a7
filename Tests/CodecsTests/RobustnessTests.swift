import Codecs
import Testing

@Suite struct RobustnessTests {
    @Test("Every prefix of a message is an error or a valid shorter message", arguments: WireFormat.allCases)
    func prefixes(format: WireFormat) throws {
        var random = SeededGenerator(state: 4)
        let codec = format.codec()
        for _ in 0..<6 {
            let bytes = try codec.encode(random.allTypes(depth: 1, oneIn: 4))
            for count in 0..<bytes.count {
                let prefix = Array(bytes[..<count])
                guard let message = try? codec.decode(AllTypes.self, from: prefix) else { continue }
                #expect(format == .protobuf, "a prefix of a JSON object or an XML document is neither")
                #expect(try codec.decode(AllTypes.self, from: try codec.encode(message)) == message)
            }
        }
    }

    @Test("Every prefix of a JSON document is reported as truncated")
    func truncatedJSON() throws {
        var message = AllTypes()
        message.string = "a\u{1}\"b"
        message.doubles = [1.5, -2e300]
        message.bool = true
        message.inners = [Inner(number: 1)]
        message.byName = ["k": -1]
        let bytes = try JSONCodec().encode(message)
        for count in 0..<bytes.count {
            #expect(
                codecError { try JSONCodec().decode(AllTypes.self, from: Array(bytes[..<count])) }?.code == .truncated
            )
        }
    }

    @Test(
        "Damaged bytes never trap, and a message that can still be read can be written again",
        arguments: WireFormat.allCases
    )
    func mutations(format: WireFormat) throws {
        var random = SeededGenerator(state: 5)
        let codec = format.codec(limits: CodecLimits(maximumDepth: 32))
        for _ in 0..<60 {
            let original = try codec.encode(random.allTypes(depth: 1, oneIn: 4))
            for _ in 0..<60 {
                let bytes = random.damaged(original)
                guard let message = try? codec.decode(AllTypes.self, from: bytes) else { continue }
                let again = try codec.encode(message)
                // The bytes are compared, because NaN differs from itself.
                #expect(try codec.encode(try codec.decode(AllTypes.self, from: again)) == again)
            }
        }
    }

    @Test("Random bytes never trap", arguments: WireFormat.allCases)
    func noise(format: WireFormat) {
        var random = SeededGenerator(state: 6)
        let codec = format.codec()
        let (beginning, tokens): (String, String) =
            switch format {
            case .json: ("{", #"{}[]:,"\u0"-1.5e+ntrue"snakeCase""inner""#)
            case .xml: ("<message>", #"<<<>>>//&;&#x1amp;='"!--?]]>[CDATA key encoding inner string"#)
            case .protobuf: ("", "")
            }
        let letters = Array(tokens.utf8)
        for _ in 0..<20_000 {
            let bytes = random.bytes().map { letters.isEmpty ? $0 : letters[Int($0) % letters.count] }
            _ = try? codec.decode(AllTypes.self, from: Array(beginning.utf8) + bytes)
        }
    }

    @Test("Encoding into a new array gives the same bytes as appending, and fails at the same limit")
    func ownArrays() throws {
        // Lengths near the largest that is assembled on the stack, and far from it.
        for length in [0, 1, 100, 127, 128, 5000] + Array(980...1040) {
            let message = Inner(snakeCase: String(repeating: "a", count: length))
            for format in WireFormat.allCases {
                for limit in [length, length + 40] {
                    let codec = format.codec(limits: CodecLimits(maximumLength: limit))
                    let appended = try? encodedBehindOne(message, by: codec)
                    switch codec {
                    case .json(let codec): #expect(try appended == Self.own(message, codec))
                    case .protobuf(let codec): #expect(try appended == Self.own(message, codec))
                    case .xml(let codec): #expect(try appended == Self.own(message, codec))
                    }
                    #expect(try appended == Self.own(message, codec))
                }
            }
        }
    }

    /// The message in its own array, or `nil` if it is too long.
    private static func own(_ message: Inner, _ codec: some MessageCodec) throws -> [UInt8]? {
        do throws(CodecError) {
            return try codec.encode(message)
        } catch {
            #expect(error.code == .tooLong)
            return nil
        }
    }

    private func encodedBehindOne(_ message: Inner, by codec: ConfiguredCodec) throws -> [UInt8] {
        var bytes: [UInt8] = [0x2A]
        try codec.encode(message, into: &bytes)
        return Array(bytes.dropFirst())
    }
}
