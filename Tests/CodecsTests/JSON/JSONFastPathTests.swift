import Codecs
import Testing

/// The fast paths of the reader and the writer, which handle words and blocks, give the same result as byte by byte, at any
/// position in a block.
@Suite struct JSONFastPathTests {
    private static let members = [
        (#""id""#, #""m-1""#), (#""conversation""#, #""team-lunch""#), (#""sender""#, #""Zoë""#),
        (#""sentAtMs""#, #""1767225600000""#), (#""kind""#, #""KIND_EDIT""#), (#""text""#, #""a\"b\\c\n""#),
        (#""replyTo""#, #""""#), (#""mentions""#, #"["u-23","u-42"]"#), (#""attachment""#, #""AAEC""#),
        (#""attributes""#, #"{"lang":"is"}"#),
    ]

    private static func document(_ members: [(String, String)], colon: String = ":", comma: String = ",") -> String {
        "{" + members.map { $0 + colon + $1 }.joined(separator: comma) + "}"
    }

    private func chat(_ text: String) throws -> ChatMessage { try fromJSON(text, as: ChatMessage.self) }

    @Test("Members in any order, with any white space and with unknown members between, give the same message")
    func orders() throws {
        let expected = try chat(Self.document(Self.members))
        #expect(expected.sender == "Zoë" && expected.kind == .edit && expected.attributes == ["lang": "is"])
        #expect(try json(expected) == Self.document(Self.members))
        var random = SeededGenerator(state: 31)
        let unknown = [
            ("\"i\"", "1"), ("\"ids\"", "[]"), ("\"conversatioN\"", "{}"), ("\"\"", "null"), ("\"é\"", "\"\""),
        ]
        for index in 0..<200 {
            let members = (Self.members + unknown.prefix(index % 6)).shuffled(using: &random)
            for (colon, comma) in [(":", ","), (" :", " ,"), (":\n", ",\t"), ("\r: ", "  ,  ")] {
                #expect(try chat(Self.document(members, colon: colon, comma: comma)) == expected)
            }
        }
        #expect(try chat(Self.document(Self.members.reversed())) == expected)
    }

    @Test("A name is the same with any of its characters escaped, before and after unescaped names")
    func escapedNames() throws {
        let expected = try chat(Self.document(Self.members))
        for index in Self.members.indices {
            let name = Self.members[index].0
            for place in name.indices.dropFirst().dropLast() {
                var members = Self.members
                let code = String(name[place].asciiValue ?? 0, radix: 16)
                members[index].0.replaceSubrange(place...place, with: "\\u00\(code)")
                #expect(try chat(Self.document(members)) == expected)
                #expect(try chat(Self.document(members.reversed())) == expected)
            }
        }
    }

    @Test("The last of two members with the same name counts, with and without escapes")
    func repeatedNames() throws {
        for names in [["id", "id"], ["id", #"\u0069d"#], [#"\u0069d"#, "id"]] {
            for colon in [":", " : "] {
                let text = #"{"\#(names[0])"\#(colon)"first","text":"t","\#(names[1])"\#(colon)"last"}"#
                #expect(try chat(text).id == "last")
            }
        }
    }

    @Test(
        "A name that only begins like a member's name is another name",
        arguments: [
            #"{"ids":"a"}"#, #"{"i":"a"}"#, #"{"Id":"a"}"#, #"{"id ":"a"}"#, #"{"id\u0000":"a"}"#, #"{"\u0049d":"a"}"#,
            #"{"conversations":"a"}"#, #"{"conversatiom":"a"}"#, #"{"konversation":"a"}"#, #"{"texT":"a"}"#,
            #"{"":"a"}"#,
        ]
    )
    func otherNames(text: String) throws {
        #expect(try chat(text) == ChatMessage())
    }

    @Test(
        "A name without its quotes or its colon is an error",
        arguments: [
            (#"{"id"x:"a"}"#, .unexpectedCharacter), (#"{"id""a"}"#, .unexpectedCharacter),
            (#"{"id"="a"}"#, .unexpectedCharacter), (#"{"id::"a"}"#, .unexpectedCharacter),
            (#"{"id;:"a"}"#, .unexpectedCharacter), (#"{"id"::"a"}"#, .unexpectedCharacter),
            (#"{'id':"a"}"#, .unexpectedCharacter),
            (#"{id":"a"}"#, .unexpectedCharacter), (#"{"id":}"#, .unexpectedCharacter),
            (#"{"id": }"#, .unexpectedCharacter),
            (#"{"id":"a",}"#, .unexpectedCharacter), (#"{"id":"a",,"text":""}"#, .unexpectedCharacter),
            (#"{"id":"a""text":""}"#, .unexpectedCharacter), ("{\"i\nd\":\"a\"}", .controlCharacter),
        ] as [(String, CodecError.Code)]
    )
    func brokenNames(text: String, code: CodecError.Code) {
        #expect(codecError { try chat(text) }?.code == code)
    }

    @Test("Each prefix of a message is reported as truncated, also one that ends within a character")
    func prefixes() throws {
        let bytes = Array(Self.document(Self.members).utf8)
        for count in 0..<bytes.count {
            let error = codecError { try JSONCodec().decode(ChatMessage.self, from: Array(bytes[..<count])) }
            #expect(error?.code == .truncated, "\(count)")
        }
    }

    @Test("A text of any length survives a round trip, and only the necessary characters are escaped")
    func lengths() throws {
        let specials: [(Character, String)] = [
            ("\"", #"\""#), ("\\", #"\\"#), ("\n", #"\n"#), ("\u{1F}", #"\u001f"#), ("\u{7F}", "\u{7F}"), ("é", "é"),
        ]
        for length in 0...40 {
            let plain = String((0..<length).map { Character(Unicode.Scalar(UInt8(0x61 + $0 % 26))) })
            for place in 0...length {
                let start = plain.index(plain.startIndex, offsetBy: place)
                for (special, escaped) in specials {
                    let text = plain[..<start] + String(special) + plain[start...]
                    let document = "{\"snakeCase\":\"\(plain[..<start])\(escaped)\(plain[start...])\"}"
                    #expect(try json(Inner(snakeCase: String(text))) == document)
                    #expect(try fromJSON(document, as: Inner.self) == Inner(snakeCase: String(text)))
                }
            }
            #expect(try fromJSON("{\"snakeCase\":\"\(plain)\"}", as: Inner.self) == Inner(snakeCase: plain))
        }
    }

    @Test("Integers of every length survive a round trip, and leading zeros are rejected")
    func digits() throws {
        var value: UInt64 = 1
        for length in 1...20 {
            for near in [value &- 1, value, value &+ 1, value &* 9 &+ 7] {
                for text in ["\(near)", "\"\(near)\""] {
                    #expect(try fromJSON("{\"uint64\":\(text)}", as: AllTypes.self).uint64 == near)
                    #expect(codecError { try fromJSON("{\"uint64\":0\(text)}", as: AllTypes.self) } != nil)
                }
                #expect(
                    codecError { try fromJSON("{\"uint64\":\"0\(near)\"}", as: AllTypes.self) }?.code == .invalidNumber
                )
                #expect(codecError { try fromJSON("{\"uint64\":\"\(near)a\"}", as: AllTypes.self) } != nil)
                #expect(try fromJSON("{\"uint64\":\(near).0}", as: AllTypes.self).uint64 == near)
                #expect(try fromJSON("{\"uint64\":\(near)e0 }", as: AllTypes.self).uint64 == near)
                var message = AllTypes()
                (message.uint64, message.int64) = (near, -Int64(near >> 1))
                #expect(try fromJSON(json(message), as: AllTypes.self) == message)
                let written = try json(message)
                #expect(near == 0 || written.contains("\"uint64\":\"\(near)\""), "\(length) digits")
            }
            value = length < 20 ? value &* 10 : value
        }
    }
}
