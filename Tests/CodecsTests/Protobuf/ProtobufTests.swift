import Codecs
import Testing

@Suite struct ProtobufTests {
    private let codec = ProtobufCodec()

    private func decode(_ text: String) throws -> AllTypes { try codec.decode(AllTypes.self, from: hex(text)) }
    private func error(_ text: String) -> CodecError? { codecError { try decode(text) } }

    @Test("A message of default values has no bytes, and no bytes give a message of default values")
    func empty() throws {
        #expect(try codec.encode(AllTypes()) == [])
        #expect(try decode("") == AllTypes())
    }

    @Test("A chat message has the bytes that the schema defines")
    func chatBytes() throws {
        var message = ChatMessage(id: "m1", conversation: "c", sender: "ann", sentAtMs: 300, text: "hé")
        message.kind = .image
        message.replyTo = ""
        message.mentions = ["bo", ""]
        message.attachment = [0, 255]
        message.attributes = ["k": "v", "a": ""]
        let expected = hex(
            """
            0A 02 6D31  12 01 63  1A 03 616E6E  20 AC02  28 01  32 03 68C3A9  3A 00  42 02 626F  42 00
            4A 02 00FF  52 05 0A01 61 1200  52 06 0A01 6B 1201 76
            """
        )
        #expect(try codec.encode(message) == expected)
        #expect(try codec.decode(ChatMessage.self, from: expected) == message)
    }

    @Test("Every scalar has the bytes that its encoding defines")
    func scalarBytes() throws {
        var message = AllTypes()
        message.bool = true
        message.int32 = -1
        message.uint32 = 150
        message.sint32 = -2
        message.sint64 = 1
        message.fixed32 = 1
        message.sfixed64 = -2
        message.float = 1.5
        message.double = -2
        message.colour = .blue
        message.maybeInt = 0
        let expected = hex(
            """
            08 01  10 FFFFFFFFFFFFFFFFFF01  20 9601  30 03  38 02  45 01000000  49 FEFFFFFFFFFFFFFF
            55 0000C03F  59 00000000000000C0  70 FBFFFFFFFFFFFFFFFF01  8001 00
            """
        )
        #expect(try codec.encode(message) == expected)
        #expect(try codec.decode(AllTypes.self, from: expected) == message)
    }

    @Test("Repeated numbers are written packed, and read packed, unpacked or mixed")
    func packed() throws {
        var message = AllTypes()
        message.ints = [3, 270, 86_942]
        message.fixeds = [1]
        #expect(try codec.encode(message) == hex("9A01 06 03 8E02 9EA705  AA01 08 0100000000000000"))
        #expect(try decode("9801 03 9801 8E02 9801 9EA705").ints == [3, 270, 86_942])
        #expect(try decode("9A01 01 03 9801 8E02 9A01 03 9EA705").ints == [3, 270, 86_942])
        #expect(try decode("A901 0100000000000000 AA01 08 0200000000000000").fixeds == [1, 2])
        #expect(try decode("9A01 00").ints == [])
    }

    @Test("Fields are read in any order, and the last value of a field counts")
    func anyOrder() throws {
        let message = try decode("7A 02 0801  10 05  08 01  10 06  D201 01 61  08 00  D201 01 62  7A 03 1201 78")
        #expect(!message.bool && message.int32 == 6)
        #expect(message.strings == ["a", "b"])
        #expect(message.inner == Inner(number: 1, snakeCase: "x"), "nested messages merge")
    }

    @Test("Map entries may lack a part, swap their parts, and repeat a key")
    func mapEntries() throws {
        #expect(try decode("F201 00").byNumber == [0: ""])
        #expect(try decode("F201 05 1201 61 0807").byNumber == [7: "a"])
        #expect(try decode("F201 05 0807 1201 61  F201 05 0807 1201 62").byNumber == [7: "b"])
        #expect(try decode("F201 08 0807 1A01 7A 1201 61").byNumber == [7: "a"], "with an unknown field inside")
    }

    @Test("Unknown fields are kept as received and written after the others")
    func unknownFields() throws {
        // Numbers 100 to 104 in all wire types, a group in a group, and field 2 with another type than its own.
        let unknown = "A006 01  A906 0102030405060708  B206 02 6162  BD06 01020304  C306 0801 1314 C406  12 01 61"
        let message = try decode("08 01 \(unknown) D201 01 61")
        #expect(message.bool && message.strings == ["a"])
        #expect(message.unknown.bytes == hex(unknown))
        #expect(try codec.encode(message) == hex("08 01 D201 01 61 \(unknown)"))
        #expect(
            try codec.decode(Inner.self, from: hex(unknown + "08 01")) == Inner(number: 1, snakeCase: "a"),
            "a message without room for unknown fields drops them"
        )
    }

    @Test("Numbers too large for 32 bits lose their upper half, and any set bit makes a Boolean true")
    func truncation() throws {
        #expect(try decode("10 FFFFFFFF1F").int32 == -1)
        #expect(try decode("20 8180808010").uint32 == 1)
        #expect(try decode("08 8002").bool)
        #expect(try decode("08 8100").bool, "a varint may be longer than necessary")
        #expect(try decode("8800 01").bool, "a tag may be longer than necessary")
    }

    @Test(
        "Malformed input is rejected with its error code",
        arguments: [
            ("00 01", .invalidFieldNumber), ("07", .invalidFieldNumber), ("80808080 10 00", .invalidFieldNumber),
            ("8000", .invalidFieldNumber), ("0E", .invalidWireType), ("0F", .invalidWireType),
            ("0C", .unmatchedGroup), ("C306 0B 14", .unmatchedGroup), ("C306", .truncated), ("C306 0801", .truncated),
            ("C306 06", .invalidFieldNumber), ("C306 0E", .invalidWireType),
            ("08", .truncated), ("08 80", .truncated), ("45 010203", .truncated), ("49 01", .truncated),
            ("62 05 61", .truncated), ("62 FFFFFFFFFFFFFFFFFF01", .truncated), ("7A 02 08", .truncated),
            ("18 FFFFFFFFFFFFFFFFFF02", .varintOverflow), ("18 8080808080808080808000", .varintOverflow),
            ("62 01 FF", .invalidUTF8), ("62 02 C080", .invalidUTF8), ("62 03 EDA080", .invalidUTF8),
            ("62 03 F09F98", .invalidUTF8), ("62 03 EFBFBE 62 04 F4908080", .invalidUTF8),
            ("F201 05 0807 1201 80", .invalidUTF8), ("9A01 01 80", .lengthOutOfBounds),
            ("AA01 07 01020304050607", .lengthOutOfBounds), ("AA01 09 010203040506070809", .lengthOutOfBounds),
            ("7A 01 08 01", .truncated),
        ] as [(String, CodecError.Code)]
    )
    func refused(input: String, code: CodecError.Code) {
        #expect(error(input)?.code == code)
    }

    @Test("U+FFFD itself is valid text")
    func replacementCharacter() throws {
        #expect(try decode("62 03 EFBFBD").string == "\u{FFFD}")
    }

    @Test("Groups that are nested beyond the limit are rejected")
    func deepGroups() throws {
        let fits = Array(repeating: UInt8(0x0B), count: 63) + Array(repeating: UInt8(0x0C), count: 63)
        #expect(try codec.decode(AllTypes.self, from: fits).unknown.bytes == fits)
        let deep = Array(repeating: UInt8(0x0B), count: 100_000)
        #expect(codecError { try codec.decode(AllTypes.self, from: deep) }?.code == .tooDeep)
    }

    @Test("An error names its field and its offset")
    func errorPath() {
        let inner = error("08 01 82 7D 06  7A 04 12 02 C3 28")
        #expect(inner?.field == "children.inner.snakeCase")
        #expect(inner?.offset == 9)
        #expect(
            inner.map { "\($0)" }
                == "The text is not valid UTF-8. (invalidUTF8 at byte 9, field children.inner.snakeCase)"
        )
    }
}
