import Codecs
import Primitives
import Testing

/// The rules of the page "Encoding" of Protocol Buffers, each for every field and place to which it applies.
@Suite struct ProtobufRulesTests {
    private let codec = ProtobufCodec()

    private func decode(_ bytes: [UInt8]) throws -> AllTypes { try codec.decode(AllTypes.self, from: bytes) }
    private func error(_ text: String) -> CodecError.Code? { codecError { try decode(hex(text)) }?.code }

    private func varint(_ value: UInt64) -> [UInt8] {
        value < 0x80 ? [UInt8(value)] : [UInt8(value & 0x7F) | 0x80] + varint(value >> 7)
    }
    private func tag(_ number: UInt64, _ type: WireType) -> [UInt8] { varint(number << 3 | UInt64(type.rawValue)) }
    private func delimited(_ number: UInt64, _ bytes: [UInt8]) -> [UInt8] {
        tag(number, .lengthDelimited) + varint(UInt64(bytes.count)) + bytes
    }

    /// The repeated fields of ``AllTypes`` that may be packed.
    private static let packable: [UInt64: WireType] = [
        19: .varint, 20: .varint, 21: .fixed64, 22: .fixed32, 23: .fixed64, 24: .varint, 25: .varint, 36: .varint,
        37: .varint,
        38: .varint, 39: .varint, 40: .fixed32, 41: .fixed32, 42: .fixed64,
    ]

    @Test(
        "Repeated numbers of every type are read packed, unpacked and in any mixture, and written packed",
        arguments: packable
    )
    func packing(number: UInt64, type: WireType) throws {
        let size = type == .varint ? 1 : type == .fixed32 ? 4 : 8
        let (one, none) = ([1] + Array(repeating: UInt8(0), count: size - 1), Array(repeating: UInt8(0), count: size))
        let packed = delimited(number, one + none + one)
        #expect(try codec.encode(try decode(packed)) == packed)
        let unpacked = [one, none, one].flatMap { tag(number, type) + $0 }
        #expect(try decode(unpacked) == decode(packed))
        #expect(
            try decode(
                delimited(number, one) + tag(number, type) + none + delimited(number, []) + delimited(number, one)
            )
                == decode(packed)
        )
        #expect(
            try decode(tag(number, type) + one + tag(1, .varint) + [0] + delimited(number, none + one))
                == decode(packed)
        )
        #expect(try decode(delimited(number, [])) == AllTypes())
    }

    @Test(
        "A field with another wire type than its own is kept as an unknown field",
        arguments: Array(1...54) + [2000] as [UInt64]
    )
    func wrongWireTypes(number: UInt64) throws {
        let occurrences: [WireType: [UInt8]] = [
            .varint: tag(number, .varint) + [1], .fixed64: tag(number, .fixed64) + [1, 0, 0, 0, 0, 0, 0, 0],
            .fixed32: tag(number, .fixed32) + [1, 0, 0, 0], .lengthDelimited: delimited(number, []),
            .startGroup: tag(number, .startGroup) + tag(number, .varint) + [1] + tag(number, .endGroup),
        ]
        var known = 0
        for (type, bytes) in occurrences {
            let message = try decode(bytes)
            guard !message.unknown.isEmpty else {
                known += 1
                #expect(type != .startGroup)
                continue
            }
            #expect(message.unknown.bytes == bytes && message.withoutUnknown == AllTypes())
            #expect(try codec.encode(message) == bytes)
        }
        #expect(known == (Self.packable[number] == nil ? 1 : 2))
    }

    @Test("Concatenated messages merge: last scalars count, lists and maps are joined, nested messages merge")
    func merging() throws {
        struct Box: WireMessage, Hashable {
            var plain = AllTypes()
            var maybe: AllTypes?
            mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
                try visitor.field(1, "plain", &plain)
                try visitor.field(2, "maybe", &maybe)
            }
        }
        var (first, second, merged) = (AllTypes(), AllTypes(), AllTypes())
        (first.int32, first.string, first.maybeInt, first.bool) = (1, "a", 5, true)
        (first.inner, first.ints, first.byName) = (Inner(number: 1, snakeCase: "x"), [1, 2], ["a": 1, "b": 1])
        (first.inners, first.byKey) = ([Inner(number: 1)], [1: Inner(number: 1), 2: Inner()])
        (second.int32, second.maybeInt, second.inner) = (2, 0, Inner(number: 3))
        (second.ints, second.byName) = ([3], ["b": 2, "c": 2])
        (second.inners, second.byKey) = ([Inner(number: 2)], [1: Inner(snakeCase: "y")])
        (merged.int32, merged.string, merged.maybeInt, merged.bool) = (2, "a", 0, true)
        (merged.inner, merged.ints, merged.byName) = (
            Inner(number: 3, snakeCase: "x"), [1, 2, 3], ["a": 1, "b": 2, "c": 2]
        )
        // A map's value is replaced as a whole.
        (merged.inners, merged.byKey) = ([Inner(number: 1), Inner(number: 2)], [1: Inner(snakeCase: "y"), 2: Inner()])
        #expect(try decode(try codec.encode(first) + codec.encode(second)) == merged)
        let boxes = try codec.encode(Box(plain: first, maybe: first)) + codec.encode(Box(plain: second, maybe: second))
        #expect(try codec.decode(Box.self, from: boxes) == Box(plain: merged, maybe: merged))
    }

    @Test("A value that comes twice in one map entry merges, and an empty entry has default key and value")
    func mapEntries() throws {
        let parts = [tag(1, .varint) + [7], delimited(2, tag(1, .varint) + [5]), delimited(2, delimited(2, [0x61]))]
        #expect(try decode(delimited(31, parts.flatMap { $0 })).byKey == [7: Inner(number: 5, snakeCase: "a")])
        #expect(
            try decode(delimited(31, [])).byKey == [0: Inner()] && decode(delimited(43, [])).byFlag == [false: false]
        )
    }

    @Test("Map keys are written in their declared encoding and read in no other")
    func mapKeys() throws {
        var message = AllTypes()
        (message.byDelta, message.byOffset) = ([-1: true], [-64: 63])
        (message.byWord, message.byHash) = ([1: "a"], [2: Inner()])
        (message.byPlace, message.byTime) = ([-2: []], [-1: 1])
        let entries: [(UInt64, [UInt8])] = [
            (49, tag(1, .varint) + [1] + tag(2, .varint) + [1]),
            (50, tag(1, .varint) + [127] + tag(2, .varint) + [126]),
            (51, tag(1, .fixed32) + [1, 0, 0, 0] + delimited(2, [0x61])),
            (52, tag(1, .fixed64) + [2, 0, 0, 0, 0, 0, 0, 0] + delimited(2, [])),
            (53, tag(1, .fixed32) + [0xfe, 0xff, 0xff, 0xff] + delimited(2, [])),
            (
                54,
                tag(1, .fixed64) + Array(repeating: 0xff, count: 8) + tag(2, .fixed64) + [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]
            ),
        ]
        #expect(try codec.encode(message) == entries.flatMap { delimited($0.0, $0.1) })
        #expect(try decode(codec.encode(message)) == message)
        #expect(try decode(delimited(51, tag(1, .varint) + [1])).byWord == [0: ""])
    }

    @Test("Map entries are ordered by the bytes of their keys, numbers by value, false before true")
    func canonicalMaps() throws {
        var message = AllTypes()
        // The order is that of the bytes. In Swift's order of strings, an e with an accent comes after z in either form.
        message.byName = ["z": 1, "e\u{301}": 2, "": 3, "\u{FFFF}": 4, "\u{10000}": 5, "e": 6]
        message.byFlag = [true: true, false: true]
        message.byLong = [0: 0, -1: 0, .min: 0, .max: 0]
        let text = try json(message)
        #expect(
            text
                == "{\"byName\":{\"\":\"3\",\"e\":\"6\",\"e\u{301}\":\"2\",\"z\":\"1\",\"\u{FFFF}\":\"4\",\"\u{10000}\":\"5\"},"
                + #""byFlag":{"false":true,"true":true},"#
                + #""byLong":{"-9223372036854775808":0.0,"-1":0.0,"0":0.0,"9223372036854775807":0.0}}"#
        )
        #expect(try codec.decode(AllTypes.self, from: try codec.encode(message)) == message)
        #expect(
            try codec.encode(message).starts(
                with: hex("EA01 04 0A00 1003  EA01 05 0A0165 1006  EA01 07 0A0365CC81 1002")
            )
        )
    }

    @Test("Keys that are equal only after normalisation are rejected, so that none is lost")
    func equivalentKeys() throws {
        let composed = delimited(29, delimited(1, Array("é".utf8)) + tag(2, .varint) + [1])
        let decomposed = delimited(29, delimited(1, Array("e\u{301}".utf8)) + tag(2, .varint) + [2])
        #expect(codecError { try decode(composed + decomposed) }?.code == .ambiguousKey)
        #expect(try decode(composed + composed).byName == ["é": 1])
    }

    @Test(
        "A varint has at most ten bytes and 64 bits, in any place",
        arguments: [
            "18", "10", "20", "28", "30", "08", "70", "62", "6A", "9A01 0B", "7A 0C 08", "F201 0C 08", "A006", "A206",
            "A306", "",
        ]
    )
    func longVarints(before: String) {
        #expect(error(before + "8080808080 8080808080 00") == .varintOverflow)
        #expect(error(before + "FFFFFFFFFF FFFFFFFF02 00") == .varintOverflow)
        #expect(error(before + "FFFFFFFFFF FFFFFFFF01") != .varintOverflow)
        #expect(error(before + "FFFFFFFFFF FFFFFFFF") == .truncated)
    }

    @Test("Field numbers are 1 to 536,870,911 in messages, groups and map entries")
    func fieldNumbers() throws {
        let numbers: [(UInt64, isValid: Bool)] = [
            (0, false), (1, true), (536_870_911, true), (536_870_912, false), (536_870_913, false), (1 << 60, false),
        ]
        for (number, isValid) in numbers {
            for type in [WireType.varint, .fixed32, .fixed64, .lengthDelimited] {
                let field =
                    tag(number, type) + Array(repeating: 0, count: type == .fixed64 ? 8 : type == .fixed32 ? 4 : 1)
                let group = tag(100, .startGroup) + field + tag(100, .endGroup)
                for bytes in [field, group, delimited(15, group), delimited(30, group), delimited(2000, field)] {
                    #expect(codecError { try decode(bytes) }?.code == (isValid ? nil : .invalidFieldNumber))
                }
            }
        }
    }

    @Test("A group is skipped with all its content, and must end with its own number")
    func groups() throws {
        // Group 5 contains a group 5, a text that looks like an end, and a group 6.
        let group = hex("2B 2B 0801 2C 12 02 2C2C 33 4D 01020304 49 0102030405060708 34 2C")
        #expect(try decode([0x10, 7] + group + [0x20, 9]).unknown.bytes == group)
        #expect(try decode(delimited(15, group + [8, 1])).inner == Inner(number: 1))
        #expect(try decode(delimited(30, group + [8, 1])).byNumber == [1: ""])
        for (text, code) in [
            ("2C", .unmatchedGroup), ("2B 34", .unmatchedGroup), ("2B 33 2C 34", .unmatchedGroup), ("2B", .truncated),
            ("2B 2B 2C", .truncated), ("7A 01 2B 2C", .truncated), ("7A 02 2B08 01 2C", .truncated),
            ("2B 7A 01 2C", .truncated),
            ("7A 01 2C", .unmatchedGroup), ("F201 01 2C", .unmatchedGroup), ("9A01 01 2C 2C", .unmatchedGroup),
        ] as [(String, CodecError.Code)] {
            #expect(error(text) == code, "\(text)")
        }
    }

    @Test("Groups and messages count towards one limit of depth")
    func depth() throws {
        func nested(messages: Int, groups: Int) -> [UInt8] {
            let group = Array(repeating: UInt8(0x2B), count: groups) + Array(repeating: UInt8(0x2C), count: groups)
            return (0..<messages).reduce(group) { bytes, _ in delimited(2000, bytes) }
        }
        #expect(throws: Never.self) { try decode(nested(messages: 40, groups: 23)) }
        #expect(codecError { try decode(nested(messages: 40, groups: 24)) }?.code == .tooDeep)
        #expect(codecError { try decode(nested(messages: 64, groups: 0)) }?.code == .tooDeep)
        #expect(codecError { try decode(delimited(15, nested(messages: 0, groups: 63))) }?.code == .tooDeep)
    }

    @Test("Text that is not UTF-8 is rejected in every string, and accepted in bytes and unknown fields")
    func invalidText() throws {
        for text in ["FF", "C080", "C1BF", "ED A080", "EDBFBF", "F4908080", "F8 88808080", "E282", "80", "61C3"].map(
            hex
        ) {
            let key = delimited(29, delimited(1, text))
            for bytes in [
                delimited(12, text), delimited(17, text), delimited(26, text), key, delimited(30, delimited(2, text)),
            ] {
                #expect(codecError { try decode(bytes) }?.code == .invalidUTF8)
                #expect(codecError { try decode(delimited(2000, bytes)) }?.code == .invalidUTF8)
            }
            #expect(try decode(delimited(13, text)).bytes == text && decode(delimited(27, text)).blobs == [text])
            #expect(try decode(delimited(100, text)).unknown.bytes == delimited(100, text))
        }
    }

    @Test("A length never extends beyond its message")
    func lengths() {
        for text in [
            "62 02 61", "7A 02 12 01 61", "7A 03 12 02 61 61", "F201 02 12 01 61", "9A01 02 01", "2B 62 02 61 2C",
            "A206 7F",
            "62 FFFFFFFF0F", "62 FFFFFFFFFFFFFFFF7F", "62 FFFFFFFFFFFFFFFFFF01", "A206 FFFFFFFFFFFFFFFFFF01",
            "9A01 FFFFFFFFFFFFFFFF7F",
        ] {
            #expect(error(text) == .truncated, "\(text)")
        }
    }
}
