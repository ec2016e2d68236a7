import Codecs
import Foundation
import Testing

/// Any JSON value: as a document, as a field of both formats, and through other coders.
@Suite struct JSONValueTests {
    private func value(_ text: String, limits: CodecLimits = CodecLimits()) throws -> JSONValue {
        try JSONValue(json: Array(text.utf8), limits: limits)
    }

    private func text(_ value: JSONValue) throws -> String { String(decoding: try value.json(), as: UTF8.self) }

    private static let profile: JSONValue = [
        "name": "Ann \"é\"\n", "age": 33, "height": 1.75, "isAdmin": false, "manager": nil, "tags": ["a", [], [:], -1],
        "address": ["city": "Oslo"],
    ]

    // MARK: Text

    @Test(
        "A document is written as it was read, without white space",
        arguments: [
            "null", "true", "false", "0", "-1", "9223372036854775807", "-9223372036854775808", "1.0", "-0.0", "1e+100",
            "5e-324", #""""#, #""é\"\\\n\u0001""#, "[]", "{}", "[[],{}]", #"{"b":1,"a":[null,true],"b":2,"":""}"#,
        ]
    )
    func roundTrip(document: String) throws {
        #expect(try text(value(document)) == document)
        #expect(try text(value(" \n\(document)\t")) == document)
        #expect(try "\(value(document))" == document)
    }

    @Test("An integer within 64 bits is exact, and every other number is the nearest double")
    func numbers() throws {
        func isInteger(_ text: String) throws -> Bool {
            if case .integer = try value(text).kind { true } else { false }
        }
        #expect(try isInteger("9007199254740993") && value("9007199254740993").integer == 9_007_199_254_740_993)
        #expect(try !isInteger("9223372036854775808") && value("9223372036854775808").number == 0x1p63)
        #expect(try !isInteger("-0") && value("-0").number?.sign == .minus)
        #expect(try !isInteger("1e2") && value("1e2").integer == 100 && value("0.1").number == 0.1)
        #expect(try value("0.5").integer == nil && value("1e300").integer == nil && value(#""1""#).number == nil)
    }

    @Test("A number that is not finite cannot be written")
    func notFinite() {
        for number in [Double.nan, .infinity, -.infinity] {
            #expect(codecError { try JSONValue.array([.number(number)]).json() }?.code == .invalidNumber)
            for format in WireFormat.allCases {
                #expect(codecError { try format.codec().encode(Note(.number(number))) }?.code == .invalidNumber)
            }
        }
    }

    @Test("The limits of a document hold on reading and on writing")
    func limits() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        let deepest = try value(nested(64))
        #expect(codecError { try value(nested(65)) }?.code == .tooDeep)
        #expect(codecError { try JSONValue.array([deepest]).json() }?.code == .tooDeep)
        #expect(codecError { try value("[1,2]", limits: CodecLimits(maximumLength: 4)) }?.code == .tooLong)
        #expect(codecError { try ([1, 2] as JSONValue).json(limits: CodecLimits(maximumLength: 4)) }?.code == .tooLong)
        #expect(codecError { try value("[[1],2]", limits: CodecLimits(maximumElements: 2)) }?.code == .tooManyElements)
        #expect(codecError { try value("[1] 2") }?.code == .trailingBytes)
        let long = JSONValue.string(String(repeating: "x", count: 5000))
        #expect(try value(text(long)) == long)
    }

    // MARK: Content

    @Test("Literals and accessors agree")
    func content() {
        let profile = Self.profile
        #expect(profile["age"]?.integer == 33 && profile["age"]?.number == 33 && profile["height"]?.number == 1.75)
        #expect(profile["isAdmin"]?.bool == false && profile["manager"]?.isNull == true)
        #expect(profile["tags"]?[0]?.string == "a" && profile["tags"]?[3] == -1 && profile["tags"]?.array?.count == 4)
        #expect(profile["address"]?["city"] == "Oslo" && profile.members?.map(\.name).first == "name")
        #expect(
            profile["none"] == nil && profile[0] == nil && profile["tags"]?[4] == nil && profile["tags"]?[-1] == nil
        )
        #expect(profile["age"]?["x"] == nil && profile.string == nil && profile.bool == nil && !profile.isNull)
        #expect(JSONValue() == nil && JSONValue.bool(true) == true && JSONValue.integer(1) == .number(1))
    }

    @Test("Setting a member replaces all of its name in the place of the first, and nil removes them")
    func setting() throws {
        var object = try value(#"{"a":1,"b":2,"a":3}"#)
        #expect(object["a"] == 3)
        object["a"] = "x"
        object["c"] = .null
        #expect(try text(object) == #"{"a":"x","b":2,"c":null}"#)
        object["a"] = nil
        object["d"] = nil
        #expect(try text(object) == #"{"b":2,"c":null}"#)
        object["b"]?["inner"] = true
        #expect(try text(object) == #"{"b":{"inner":true},"c":null}"#)
        var text: JSONValue = "x"
        text["a"] = nil
        #expect(text == "x")
        text["a"] = 1
        #expect(text == ["a": 1])
    }

    @Test("Values are equal if they are the same JSON, and have equal hashes then")
    func equality() throws {
        for (left, right) in [
            (#"{"a":1,"b":[2]}"#, #"{"b":[2.0],"a":1e0}"#), (#"{"a":1,"a":2}"#, #"{"a":2}"#), ("0", "-0"),
            (#""\u00e9""#, "\"\u{e9}\""), (#"{"é":1,"é":1}"#, #"{"é":1}"#),
        ] {
            #expect(try value(left) == value(right) && value(left).hashValue == value(right).hashValue, "\(left)")
        }
        for (left, right) in [
            ("1", "2"), ("1", "true"), ("0", "null"), ("[1,2]", "[2,1]"), (#"{"a":1}"#, #"{"a":1,"b":1}"#),
            ("\"\u{e9}\"", "\"e\u{301}\""), ("{\"\u{e9}\":1}", "{\"e\u{301}\":1}"), ("[]", "{}"), ("\"\"", "null"),
            ("9007199254740993", "9007199254740992.0"),
        ] {
            #expect(try value(left) != value(right), "\(left)")
        }
    }

    // MARK: Fields

    private struct Note: WireMessage, Equatable {
        var any = JSONValue()
        var optional: JSONValue?
        var list: [JSONValue] = []
        var map: [String: JSONValue] = [:]
        var after = ""

        init() {}
        init(_ any: JSONValue) { self.any = any }

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "any", &any)
            try visitor.field(2, "optional", &optional)
            try visitor.field(3, "list", &list)
            try visitor.field(4, "map", &map)
            try visitor.field(5, "after", &after)
        }
    }

    /// The same message for a peer that declares the values as strings.
    private struct TextNote: WireMessage, Equatable {
        var any = ""
        var optional: String?
        var list: [String] = []
        var map: [String: String] = [:]
        var after = ""

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "any", &any)
            try visitor.field(2, "optional", &optional)
            try visitor.field(3, "list", &list)
            try visitor.field(4, "map", &map)
            try visitor.field(5, "after", &after)
        }
    }

    private static var note: Note {
        var note = Note(profile)
        (note.optional, note.list, note.map, note.after) = ("x", [1, nil, ["a": []]], ["k": nil, "l": [true]], "end")
        return note
    }

    @Test("A field of any shape holds any value in both formats", arguments: WireFormat.allCases)
    func fields(format: WireFormat) throws {
        let codec = format.codec()
        #expect(try codec.decode(Note.self, from: codec.encode(Self.note)) == Self.note)
        #expect(try codec.decode(Note.self, from: codec.encode(Note())) == Note())
        for value: JSONValue in [true, 0, "", [], [:], 1.5, [nil]] {
            #expect(try codec.decode(Note.self, from: codec.encode(Note(value))) == Note(value))
        }
        // Longer than one byte of length, and longer than the memory on the stack.
        for count in [127, 128, 20_000] {
            let note = Note(.string(String(repeating: "é", count: count)))
            #expect(try codec.decode(Note.self, from: codec.encode(note)) == note)
        }
    }

    @Test("In JSON a field is the value, and null is the default")
    func jsonField() throws {
        var note = Note(["a": [1, nil]])
        (note.list, note.after) = ([nil], "end")
        #expect(try json(note) == #"{"any":{"a":[1,null]},"list":[null],"after":"end"}"#)
        #expect(try json(Note(nil)) == "{}" && fromJSON(#"{"any":null,"optional":null}"#) == Note())
    }

    @Test("In protobuf a field is a string with the JSON text, and the empty string is null")
    func protobufField() throws {
        let peer = try ProtobufCodec().decode(TextNote.self, from: ProtobufCodec().encode(Self.note))
        #expect(try value(peer.any) == Self.profile && peer.optional == #""x""# && peer.after == "end")
        #expect(peer.list == ["1", "null", #"{"a":[]}"#] && peer.map == ["k": "null", "l": "[true]"])
        var texts = TextNote()
        (texts.any, texts.optional, texts.list) = (" {\"a\" : 1}\n", "", ["", "2"])
        let note = try ProtobufCodec().decode(Note.self, from: ProtobufCodec().encode(texts))
        #expect(note.any == ["a": 1] && note.optional?.isNull == true && note.list == [nil, 2])
    }

    @Test("A mistake in the JSON text of a protobuf field is an error at its place, with the field's name")
    func protobufMistake() throws {
        var texts = TextNote()
        texts.list = ["1", "[1,]"]
        let bytes = try ProtobufCodec().encode(texts)
        let error = codecError { try ProtobufCodec().decode(Note.self, from: bytes) }
        #expect(error?.code == .unexpectedCharacter && error?.offset == bytes.count - 1 && error?.field == "list")
    }

    @Test("Levels and elements of a value count as those of its message", arguments: WireFormat.allCases)
    func fieldLimits(format: WireFormat) throws {
        func nested(_ depth: Int) -> Note { Note((0..<depth).reduce(1) { value, _ in [value] }) }
        let codec = format.codec()
        let bytes = try codec.encode(nested(63))
        #expect(try codec.decode(Note.self, from: bytes) == nested(63))
        #expect(codecError { try codec.encode(nested(64)) }?.code == .tooDeep)
        let wide = try format.codec(limits: CodecLimits(maximumDepth: 65)).encode(nested(64))
        #expect(codecError { try codec.decode(Note.self, from: wide) }?.code == .tooDeep)
        var note = Note([1, 2, 3])
        note.list = [[4]]
        let encoded = try codec.encode(note)
        #expect(try format.codec(limits: CodecLimits(maximumElements: 5)).decode(Note.self, from: encoded) == note)
        let error = codecError {
            try format.codec(limits: CodecLimits(maximumElements: 4)).decode(Note.self, from: encoded)
        }
        #expect(error?.code == .tooManyElements && error?.field == "list")
    }

    // MARK: Codable

    @Test("Other coders read and write the same value")
    func codable() throws {
        let data = try JSONEncoder().encode(Self.profile)
        #expect(try value(String(decoding: data, as: UTF8.self)) == Self.profile)
        #expect(try JSONDecoder().decode(JSONValue.self, from: data) == Self.profile)
        for document in ["[]", "{}", "[null,true,-9223372036854775808,0.5,\"x\",{\"a\":{}}]"] {
            let decoded = try JSONDecoder().decode(JSONValue.self, from: Data(document.utf8))
            #expect(try decoded == value(document), "\(document)")
            #expect(try JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(decoded)) == decoded)
        }
    }
}
