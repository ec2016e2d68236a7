import Codecs
import Testing

/// `Int` and `UInt` as fields, which are protobuf's `int64` and `uint64` on every platform.
@Suite struct PlatformIntegerTests {
    /// One message of the same declaration for each pair of types.
    private struct Numbers<S: WireInteger & Sendable, U: WireInteger & Sendable>: WireMessage, Equatable {
        var signed = S.zero
        var unsigned = U.zero
        var zigZag = S.zero
        var signedFixed = S.zero
        var unsignedFixed = U.zero
        var optional: S?
        var packed: [S] = []
        var unpacked: [U] = []
        var folded: [S] = []
        var fixed: [U] = []
        var byNumber: [S: U] = [:]
        var byFixed: [U: S] = [:]

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "signed", &signed)
            try visitor.field(2, "unsigned", &unsigned)
            try visitor.field(3, "zigZag", &zigZag, as: .zigZag)
            try visitor.field(4, "signedFixed", &signedFixed, as: .fixed)
            try visitor.field(5, "unsignedFixed", &unsignedFixed, as: .fixed)
            try visitor.field(6, "optional", &optional)
            try visitor.field(7, "packed", &packed)
            try visitor.field(8, "unpacked", &unpacked, packed: false)
            try visitor.field(9, "folded", &folded, as: .zigZag)
            try visitor.field(10, "fixed", &fixed, as: .fixed)
            try visitor.field(11, "byNumber", &byNumber)
            try visitor.field(12, "byFixed", &byFixed, as: .zigZag, keys: .fixed)
        }

        init() {}

        init(_ signed: S, _ unsigned: U) {
            (self.signed, zigZag, signedFixed, optional) = (signed, signed, signed, signed)
            (self.unsigned, unsignedFixed) = (unsigned, unsigned)
            (packed, folded) = ([signed, 0, 1], [signed, -1])
            (unpacked, fixed) = ([unsigned, 0], [unsigned, 1])
            byNumber = [0: 7]
            byNumber[signed] = unsigned
            byFixed = [unsigned: signed]
        }
    }

    private typealias Platform = Numbers<Int, UInt>
    private typealias Wire = Numbers<Int64, UInt64>

    private static let signed: [Int64] = [0, 1, -1, 63, -64, 300, 1 << 31, -1 << 31, 1 << 53 + 1, .max, .min]

    @Test("Int and UInt have the bytes of int64 and uint64 in every format", arguments: WireFormat.allCases)
    func bytes(format: WireFormat) throws {
        let codec = format.codec()
        for value in Self.signed {
            let wire = Wire(value, UInt64(bitPattern: value))
            let platform = Platform(Int(value), UInt(bitPattern: Int(value)))
            let bytes = try codec.encode(wire)
            #expect(try codec.encode(platform) == bytes)
            #expect(try codec.decode(Platform.self, from: bytes) == platform)
            #expect(try codec.decode(Wire.self, from: codec.encode(platform)) == wire)
        }
    }

    private static let proto = """
        syntax = "proto3";
        message Numbers {
          int64 signed = 1; uint64 unsigned = 2; sint64 zig_zag = 3; sfixed64 signed_fixed = 4; fixed64 unsigned_fixed = 5;
          optional int64 optional = 6; repeated int64 packed = 7; repeated uint64 unpacked = 8 [packed = false];
          repeated sint64 folded = 9; repeated fixed64 fixed = 10; map<int64, uint64> by_number = 11;
          map<fixed64, sint64> by_fixed = 12;
        }
        """

    @Test(
        "Python reads Int and UInt as int64 and uint64, and writes the same values",
        .protobufForPython
    )
    func python() throws {
        let messages = Self.signed.map { Platform(Int($0), UInt(bitPattern: Int($0))) }
        let answers = try PythonPeer.answers(
            to: try messages.flatMap { [try ProtobufCodec().encode($0), try JSONCodec().encode($0)] },
            script: PythonScripts.rewrite,
            arguments: ["Numbers"],
            proto: Self.proto
        )
        try #require(answers.count == messages.count * 3)
        for (index, message) in messages.enumerated() {
            #expect(try ProtobufCodec().decode(Platform.self, from: answers[index * 3]) == message)
            #expect(try JSONCodec().decode(Platform.self, from: answers[index * 3 + 1]) == message)
            #expect(try ProtobufCodec().decode(Platform.self, from: answers[index * 3 + 2]) == message)
        }
    }

    @Test("In JSON an Int is written as a string of digits, and read from a string or a number")
    func text() throws {
        var message = Platform()
        (message.signed, message.unsigned, message.byNumber) = (-5, 7, [-1: 2])
        #expect(try json(message) == #"{"signed":"-5","unsigned":"7","byNumber":{"-1":"2"}}"#)
        let read: Platform = try fromJSON(#"{"signed":-5,"unsigned":"7","byNumber":{"-1":2.0}}"#)
        #expect(read == message)
    }

    @Test(
        "A number that an Int or a UInt cannot represent is refused",
        arguments: [
            #"{"signed":9223372036854775808}"#, #"{"signed":"-9223372036854775809"}"#, #"{"unsigned":-1}"#,
            #"{"unsigned":18446744073709551616}"#, #"{"signed":0.5}"#, #"{"byNumber":{"9223372036854775808":1}}"#,
        ]
    )
    func outOfRange(text: String) {
        #expect(codecError { try fromJSON(text, as: Platform.self) }?.code == .numberOutOfRange)
    }

    @Test("A value on the wire that is wider than the type of its field is a typed error")
    func narrow() {
        let byte: UInt8 = 0
        withUnsafePointer(to: byte) { base in
            let reader = ProtobufReader(base: base, count: 1, limits: CodecLimits())
            func narrowed(_ value: Int64) throws -> Int32 { try reader.narrowed(value) }
            #expect(throws: Never.self) { try narrowed(Int64(Int32.max)) }
            #expect(codecError { try narrowed(Int64(Int32.max) + 1) }?.code == .numberOutOfRange)
        }
    }
}
