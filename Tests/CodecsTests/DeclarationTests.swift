import Codecs
import Testing

/// Declarations besides plain fields: oneofs, unpacked repeated numbers, and messages that contain their own type.
@Suite struct DeclarationTests {
    private struct Picture: WireMessage, Equatable {
        enum Source: Equatable {
            case url(String)
            case size(Int32)
            case inner(Inner)
            case colour(Colour)
        }
        var source: Source?
        var after = ""

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.oneof(1, "url", &source) {
                if case .url(let url) = $0 { url } else { nil }
            } set: {
                .url($0)
            }
            try visitor.oneof(2, "size", &source, as: .zigZag) {
                if case .size(let size) = $0 { size } else { nil }
            } set: {
                .size($0)
            }
            try visitor.oneof(3, "inner", &source) {
                if case .inner(let inner) = $0 { inner } else { nil }
            } set: {
                .inner($0)
            }
            try visitor.oneof(4, "colour", &source) {
                if case .colour(let colour) = $0 { colour } else { nil }
            } set: {
                .colour($0)
            }
            try visitor.field(5, "after", &after)
        }
    }

    private struct Comment: WireMessage, Hashable {
        var text = ""
        @Indirect var answer: Comment?

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "text", &text)
            try visitor.field(2, "answer", &_answer)
        }
    }

    private func picture(_ source: Picture.Source?) -> Picture {
        var picture = Picture()
        picture.source = source
        return picture
    }

    @Test("A oneof keeps the member that is set, also one with its default value, in every format")
    func oneof() throws {
        let sources: [Picture.Source?] = [
            nil, .url("x"), .url(""), .size(-1), .size(0), .inner(Inner(number: 1, snakeCase: "s")), .colour(.red),
        ]
        for source in sources {
            for format in WireFormat.allCases {
                let bytes = try format.codec().encode(picture(source))
                #expect(try format.codec().decode(Picture.self, from: bytes) == picture(source), "\(format)")
            }
        }
        #expect(try json(picture(.size(0))) == #"{"size":0}"#)
        #expect(try ProtobufCodec().encode(picture(.size(-1))) == [0x10, 1])
    }

    @Test("In protobuf, the last member of a oneof counts, and a repeated message member is merged")
    func lastMember() throws {
        let codec = ProtobufCodec()
        let (url, size) = (try codec.encode(picture(.url("x"))), try codec.encode(picture(.size(1))))
        #expect(try codec.decode(Picture.self, from: url + size) == picture(.size(1)))
        #expect(try codec.decode(Picture.self, from: size + url) == picture(.url("x")))
        let (number, text) = (Inner(number: 1, snakeCase: ""), Inner(number: 0, snakeCase: "s"))
        let halves = try codec.encode(picture(.inner(number))) + codec.encode(picture(.inner(text)))
        #expect(try codec.decode(Picture.self, from: halves) == picture(.inner(Inner(number: 1, snakeCase: "s"))))
    }

    @Test(
        "In JSON, a oneof that is given twice is rejected",
        arguments: [
            #"{"url":"a","size":1}"#, #"{"size":1,"url":"a"}"#, #"{"url":"a","url":"b"}"#,
            #"{"url":"","after":"x","size":0}"#,
            #"{"inner":{},"inner":{}}"#, #"{"s\u0069ze":1,"url":"a"}"#, #"{"colour":7,"size":1}"#,
        ]
    )
    func twice(text: String) {
        #expect(codecError { try fromJSON(text, as: Picture.self) }?.code == .repeatedOneof)
    }

    @Test("A oneof member that is null, or an enum with an unknown name, counts as absent")
    func absent() throws {
        for text in [
            #"{"url":null,"size":1}"#, #"{"size":1,"url":null}"#, #"{"colour":"MAUVE","size":1}"#,
            #"{"size":1,"colour":"MAUVE"}"#,
        ] {
            #expect(try fromJSON(text, as: Picture.self) == picture(.size(1)), "\(text)")
        }
        #expect(try fromJSON(#"{"url":null}"#, as: Picture.self) == Picture())
    }

    private struct Numbers: WireMessage, Equatable {
        var plain: [Int32] = []
        var sizes: [UInt32] = []
        var names: [String] = []

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "plain", &plain, packed: false)
            try visitor.field(2, "sizes", &sizes, as: .fixed, packed: false)
            try visitor.field(3, "names", &names, packed: false)
        }
    }

    @Test("A repeated number that is declared as unpacked is written unpacked, and read in both forms")
    func unpacked() throws {
        var message = Numbers()
        (message.plain, message.sizes, message.names) = ([1, 2], [3], ["a"])
        let bytes: [UInt8] = [0x08, 1, 0x08, 2, 0x15, 3, 0, 0, 0, 0x1A, 1, 0x61]
        #expect(try ProtobufCodec().encode(message) == bytes)
        #expect(try ProtobufCodec().decode(Numbers.self, from: bytes) == message)
        let packed: [UInt8] = [0x0A, 2, 1, 2, 0x12, 4, 3, 0, 0, 0, 0x1A, 1, 0x61]
        #expect(try ProtobufCodec().decode(Numbers.self, from: packed) == message)
        #expect(try json(message) == #"{"plain":[1,2],"sizes":[3],"names":["a"]}"#)
    }

    private func thread(_ depth: Int) -> Comment {
        (0..<depth).reduce(Comment()) { inner, number in
            var outer = Comment()
            outer.text = "\(number)"
            outer.answer = inner
            return outer
        }
    }

    @Test("A message may contain its own type, as deep as the limit of the codec allows")
    func recursion() throws {
        for format in WireFormat.allCases {
            let codec = format.codec()
            for depth in [0, 1, 2, 60] {
                let message = thread(depth)
                #expect(try codec.decode(Comment.self, from: codec.encode(message)) == message, "\(format)")
            }
            #expect(codecError { try codec.encode(thread(64)) }?.code == .tooDeep, "\(format)")
            let deep = try format.codec(limits: CodecLimits(maximumDepth: 100)).encode(thread(64))
            #expect(codecError { try codec.decode(Comment.self, from: deep) }?.code == .tooDeep, "\(format)")
        }
        #expect(try json(thread(1)) == #"{"text":"0","answer":{}}"#)
        #expect(try fromJSON(#"{"answer":null}"#, as: Comment.self) == Comment())
    }

    @Test("A copy of a message keeps its nested message when the original changes")
    func values() {
        var first = thread(2)
        let second = first
        first.answer?.text = "changed"
        #expect(first.answer?.text == "changed" && second == thread(2))
    }

    @Test("In protobuf, a nested message of its own type is merged if it comes twice")
    func mergedRecursion() throws {
        let codec = ProtobufCodec()
        var (first, second) = (thread(1), thread(1))
        first.answer?.text = "a"
        second.answer?.answer = thread(0)
        let both = try codec.decode(Comment.self, from: codec.encode(first) + codec.encode(second))
        #expect(both.answer?.text == "a" && both.answer?.answer == Comment())
    }
}

/// Escapes within strings that hold numbers and Booleans.
@Suite struct JSONEscapedNumberTests {
    @Test("A number in a string stays the same if any of its characters is escaped")
    func numbers() throws {
        func escaped(_ text: String, _ index: Int) -> String {
            let units = Array(text.utf16)
            return units.enumerated().map { place, unit in
                let digits = String(unit, radix: 16)
                return place == index
                    ? "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                    : String(UnicodeScalar(UInt8(unit)))
            }.joined()
        }
        for text in ["21", "-7", "9007199254740993", "1.0", "25e-1", "1000000000000e-9", "0"] {
            for index in 0..<text.utf8.count {
                let quoted = "\"\(escaped(text, index))\""
                for member in ["int32", "int64", "sint64", "float", "double"] {
                    let plain = Result { try fromJSON("{\"\(member)\":\"\(text)\"}", as: AllTypes.self) }
                    let other = Result { try fromJSON("{\"\(member)\":\(quoted)}", as: AllTypes.self) }
                    #expect((try? plain.get()) == (try? other.get()), "\(member) \(quoted)")
                }
            }
        }
        #expect(try fromJSON(#"{"int64":"2\u0031"}"#, as: AllTypes.self).int64 == 21)
        #expect(
            try fromJSON(#"{"double":"\u002dInfinity","float":"I\u006efinity"}"#, as: AllTypes.self).double
                == -.infinity
        )
        #expect(try fromJSON(#"{"double":"N\u0061\u004e"}"#, as: AllTypes.self).double.isNaN)
    }

    @Test("Map keys that are numbers or Booleans may contain escapes")
    func keys() throws {
        let message: AllTypes = try fromJSON(
            #"{"byFlag":{"tr\u0075e":false,"\u0066alse":true},"byNumber":{"2\u0031":"a","\u002d3":"b"},"byKey":{"\u0031":{}}}"#
        )
        #expect(message.byFlag == [true: false, false: true] && message.byNumber == [21: "a", -3: "b"])
        #expect(message.byKey == [1: Inner()])
    }

    @Test(
        "An escaped text that is not a number is rejected",
        arguments: [
            (#""1\u0022""#, .invalidNumber), (#""1\u0022,""#, .invalidNumber), (#""\u0061""#, .invalidNumber),
            (#""1\x""#, .invalidEscape), (#""1\ud800""#, .loneSurrogate), (#""1\u003""#, .invalidEscape),
            (#""1\u"#, .invalidEscape), (#""\u0030\u0031""#, .invalidNumber),
            (#""9\u0039999999999999999999""#, .numberOutOfRange),
            (#""1\u002e5""#, .numberOutOfRange),
        ] as [(String, CodecError.Code)]
    )
    func invalid(text: String, code: CodecError.Code) {
        let error = codecError { try fromJSON("{\"int64\":\(text)}", as: AllTypes.self) }
        #expect(error?.code == code && error?.field == "int64")
    }
}
