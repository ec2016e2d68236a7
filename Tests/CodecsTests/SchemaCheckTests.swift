import Codecs
import Testing

/// Mistakes in the declaration of a message type, which are errors at its first use.
@Suite struct SchemaCheckTests {
    /// The error of writing a message of the type, which must be that of reading one, in every format.
    private func failure<M: WireMessage>(of type: M.Type) -> CodecError? {
        var errors: Set<CodecError?> = []
        for format in WireFormat.allCases {
            let codec = format.codec()
            // The second time too.
            for _ in 0..<2 {
                errors.insert(codecError { try codec.encode(M()) })
                errors.insert(codecError { try codec.decode(M.self, from: Array(Self.empty(format).utf8)) })
            }
        }
        #expect(errors.count == 1, "\(errors)")
        return errors.first.flatMap { $0 }
    }

    /// A message without fields.
    private static func empty(_ format: WireFormat) -> String {
        switch format {
        case .json: "{}"
        case .protobuf: ""
        case .xml: "<message/>"
        }
    }

    private func problem<M: WireMessage>(of type: M.Type) -> String? {
        let error = failure(of: type)
        #expect(error == nil || error?.code == .invalidSchema)
        return error?.problem
    }

    private struct SameNumber: WireMessage {
        var text = ""
        var times: Int32 = 0
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(3, "text", &text)
            try visitor.field(3, "times", &times)
        }
    }

    @Test("Two fields with one number are refused with the names of both")
    func sameNumber() {
        #expect(
            problem(of: SameNumber.self) == "SameNumber declares the field number 3 twice, as 'text' and as 'times'"
        )
        #expect(
            failure(of: SameNumber.self)?.description
                == "SameNumber declares the field number 3 twice, as 'text' and as 'times'. (invalidSchema)"
        )
    }

    private struct SameName: WireMessage {
        var first = ""
        var second: [String] = []
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.identifier(1, "text", &first)
            try visitor.identifier(2, "text", &second)
        }
    }

    @Test("Two fields with one JSON name are refused with the numbers of both")
    func sameName() {
        #expect(problem(of: SameName.self) == "SameName declares the JSON name 'text' twice, as field 1 and as field 2")
    }

    /// A message with one field, whose number is that of `N`.
    private struct Numbered<N: FieldNumber>: WireMessage {
        var text: String?
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(N.number, "text", &text)
        }
    }

    @Test("A field number outside protobuf's range is refused with the name of the field")
    func range() {
        func refusal<N: FieldNumber>(_ type: N.Type) -> String {
            """
            Numbered<\(type)> declares the field 'text' with the number \(N.number); allowed are 1 to 536870911 without \
            19000 to 19999
            """
        }
        #expect(problem(of: Numbered<Zero>.self) == refusal(Zero.self))
        #expect(problem(of: Numbered<TooLarge>.self) == refusal(TooLarge.self))
        #expect(problem(of: Numbered<FirstReserved>.self) == refusal(FirstReserved.self))
        #expect(problem(of: Numbered<LastReserved>.self) == refusal(LastReserved.self))
        #expect(problem(of: Numbered<Greatest>.self) == nil)
        #expect(problem(of: Numbered<BeforeReserved>.self) == nil)
        #expect(problem(of: Numbered<AfterReserved>.self) == nil)
    }

    /// A message with one field, whose initial value is not the default in the case `S`.
    private struct Preset<S: PresetField>: WireMessage {
        var number: Int32 = S.index == 1 ? 1 : 0
        var optional: Int32? = S.index == 2 ? 0 : nil
        var list: [Int32] = S.index == 3 ? [0] : []
        var map: [String: Int32] = S.index == 4 ? ["": 0] : [:]
        var choice: Int32? = S.index == 5 ? 0 : nil
        var message = Inner()

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "number", &number)
            try visitor.field(2, "optional", &optional)
            try visitor.field(3, "list", &list)
            try visitor.field(4, "map", &map)
            try visitor.oneof(5, "choice", &choice) {
                $0
            } set: {
                $0
            }
            try visitor.field(6, "message", &message)
        }
    }

    @Test(
        "A field that init() sets to a value which would be read in place of an absent field is refused with its name"
    )
    func preset() {
        func refusal<S: PresetField>(_ type: S.Type, _ name: String) -> String {
            """
            Preset<\(type)> sets the field '\(name)' in init(), but a field that is zero, empty or nil is not sent and would \
            be read as this value; set it in another initialiser
            """
        }
        #expect(problem(of: Preset<PresetNumber>.self) == refusal(PresetNumber.self, "number"))
        #expect(problem(of: Preset<PresetOptional>.self) == refusal(PresetOptional.self, "optional"))
        #expect(problem(of: Preset<PresetList>.self) == refusal(PresetList.self, "list"))
        #expect(problem(of: Preset<PresetMap>.self) == refusal(PresetMap.self, "map"))
        #expect(problem(of: Preset<PresetChoice>.self) == refusal(PresetChoice.self, "choice"))
        #expect(problem(of: Preset<PresetNone>.self) == nil)
    }

    private struct SameMember: WireMessage {
        enum Source { case url(String), file(Int64) }
        var source: Source?
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.oneof(1, "url", &source) {
                if case .url(let url) = $0 { url } else { nil }
            } set: {
                .url($0)
            }
            try visitor.oneof(1, "file", &source) {
                if case .file(let file) = $0 { file } else { nil }
            } set: {
                .file($0)
            }
        }
    }

    @Test("Members of a oneof are fields of the message")
    func oneof() {
        #expect(problem(of: SameMember.self) == "SameMember declares the field number 1 twice, as 'url' and as 'file'")
    }

    /// A message that contains one of another type, in one of the shapes of a field.
    private struct Outer<S: NestedShape>: WireMessage {
        var plain = SameNumber()
        var optional: SameNumber?
        var list: [SameNumber] = []
        var map: [String: SameNumber] = [:]
        @Indirect var indirect: SameNumber?
        @Indirect var own: Outer?

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "own", &_own)
            switch S.index {
            case 1: try visitor.field(2, "plain", &plain)
            case 2: try visitor.field(2, "optional", &optional)
            case 3: try visitor.field(2, "list", &list)
            case 4: try visitor.field(2, "map", &map)
            case 5: try visitor.field(2, "indirect", &_indirect)
            default: break
            }
        }
    }

    @Test("A mistake in the type of a nested message is found in every shape of a field, without such a message")
    func nested() {
        let expected = "SameNumber declares the field number 3 twice, as 'text' and as 'times'"
        #expect(problem(of: Outer<Plain>.self) == expected)
        #expect(problem(of: Outer<Maybe>.self) == expected)
        #expect(problem(of: Outer<List>.self) == expected)
        #expect(problem(of: Outer<Map>.self) == expected)
        #expect(problem(of: Outer<Boxed>.self) == expected)
        #expect(problem(of: Outer<Absent>.self) == nil)
    }

    @Test("The bytes that an encoder appends to stay as they are")
    func output() {
        var output: [UInt8] = [1, 2]
        output.reserveCapacity(1000)
        #expect(codecError { try JSONCodec().encode(SameNumber(), into: &output) }?.code == .invalidSchema)
        #expect(output == [1, 2])
    }

    @Test("Several tasks may use a type for the first time at once, and each of them gets the same result")
    func tasks() async {
        await withTaskGroup(of: (CodecError.Code?, CodecError.Code?).self) { group in
            for _ in 0..<16 {
                group.addTask {
                    (
                        codecError { try JSONCodec().encode(FirstUse<SameNumber>()) }?.code,
                        codecError { try JSONCodec().encode(FirstUse<Inner>()) }?.code
                    )
                }
            }
            for await codes in group { #expect(codes == (.invalidSchema, nil)) }
        }
    }

    private struct FirstUse<Value: WireMessage>: WireMessage {
        var values: [Value] = []
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "values", &values)
        }
    }
}

private protocol FieldNumber: Sendable { static var number: UInt32 { get } }
private enum Zero: FieldNumber { static let number: UInt32 = 0 }
private enum TooLarge: FieldNumber { static let number: UInt32 = 536_870_912 }
private enum FirstReserved: FieldNumber { static let number: UInt32 = 19_000 }
private enum LastReserved: FieldNumber { static let number: UInt32 = 19_999 }
private enum Greatest: FieldNumber { static let number: UInt32 = 536_870_911 }
private enum BeforeReserved: FieldNumber { static let number: UInt32 = 18_999 }
private enum AfterReserved: FieldNumber { static let number: UInt32 = 20_000 }

private protocol NestedShape: Sendable { static var index: Int { get } }
private enum Plain: NestedShape { static let index = 1 }
private enum Maybe: NestedShape { static let index = 2 }
private enum List: NestedShape { static let index = 3 }
private enum Map: NestedShape { static let index = 4 }
private enum Boxed: NestedShape { static let index = 5 }
private enum Absent: NestedShape { static let index = 0 }

private protocol PresetField: Sendable { static var index: Int { get } }
private enum PresetNone: PresetField { static let index = 0 }
private enum PresetNumber: PresetField { static let index = 1 }
private enum PresetOptional: PresetField { static let index = 2 }
private enum PresetList: PresetField { static let index = 3 }
private enum PresetMap: PresetField { static let index = 4 }
private enum PresetChoice: PresetField { static let index = 5 }
