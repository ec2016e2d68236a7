import Codecs
import Testing

@Suite struct RoundTripTests {
    @Test("Every type of field survives a round trip in every format", arguments: WireFormat.allCases)
    func everyType(format: WireFormat) throws {
        var random = SeededGenerator(state: 1)
        let codec = format.codec()
        for _ in 0..<300 {
            let message = random.allTypes()
            let bytes = try codec.encode(message)
            let back = try codec.decode(AllTypes.self, from: bytes)
            #expect(back == message)
            #expect(try codec.encode(back) == bytes)
        }
    }

    @Test("Chat messages survive a round trip in every format", arguments: WireFormat.allCases)
    func chat(format: WireFormat) throws {
        var random = SeededGenerator(state: 2)
        let codec = format.codec()
        for _ in 0..<500 {
            let message = random.chatMessage()
            #expect(try codec.decode(ChatMessage.self, from: try codec.encode(message)) == message)
        }
    }

    @Test("NaN stays NaN, and minus zero keeps its sign", arguments: WireFormat.allCases)
    func specialFloats(format: WireFormat) throws {
        let codec = format.codec()
        var message = AllTypes()
        message.double = .nan
        message.float = -0.0
        message.doubles = [.infinity, -.infinity, .leastNonzeroMagnitude, .greatestFiniteMagnitude, 0.1]
        let back = try codec.decode(AllTypes.self, from: try codec.encode(message))
        #expect(back.double.isNaN)
        #expect(back.float.sign == .minus)
        #expect(back.doubles == message.doubles)
    }

    @Test("The extremes of every integer type survive a round trip", arguments: WireFormat.allCases)
    func extremes(format: WireFormat) throws {
        let codec = format.codec()
        var low = AllTypes()
        (low.int32, low.int64, low.sint32, low.sint64, low.sfixed64) = (.min, .min, .min, .min, .min)
        var high = AllTypes()
        (high.int32, high.int64, high.uint32, high.uint64) = (.max, .max, .max, .max)
        (high.sint32, high.sint64, high.fixed32, high.sfixed64) = (.max, .max, .max, .max)
        high.byKey = [.max: Inner(), 0: Inner()]
        #expect(try codec.decode(AllTypes.self, from: try codec.encode(low)) == low)
        #expect(try codec.decode(AllTypes.self, from: try codec.encode(high)) == high)
    }

    @Test("Encoding appends to the existing bytes, whatever the spare capacity", arguments: WireFormat.allCases)
    func appending(format: WireFormat) throws {
        let codec = format.codec()
        var random = SeededGenerator(state: 3)
        for size in [0, 10, 500, 900, 1100, 5000, 100_000] {
            var message = random.chatMessage()
            message.text = String(repeating: "x\n", count: size / 2)
            let alone = try codec.encode(message)
            for room in [0, 127, 128, 1024, alone.count, 300_000] {
                var output: [UInt8] = [1, 2, 3]
                output.reserveCapacity(room)
                try codec.encode(message, into: &output)
                #expect(output == [1, 2, 3] + alone)
            }
        }
    }

    @Test("A nested message of any length has the right length in front")
    func nestedLengths() throws {
        for size in [0, 1, 100, 124, 125, 126, 127, 128, 129, 16_379, 16_380, 16_384, 2_097_149, 2_097_152] {
            var message = AllTypes()
            message.inner = Inner(number: 1, snakeCase: String(repeating: "y", count: size))
            message.maybeInt = 5
            let back = try ProtobufCodec().decode(AllTypes.self, from: try ProtobufCodec().encode(message))
            #expect(back == message)
        }
    }

    @Test("Map entries are written in the order of their keys, however many there are", arguments: WireFormat.allCases)
    func mapOrder(format: WireFormat) throws {
        let codec = format.codec()
        for count in [1, 2, 5, 16, 17, 100] {
            var forward = AllTypes()
            var backward = AllTypes()
            for key in 0..<Int32(count) { forward.byNumber[key] = "v\(key)" }
            for key in (0..<Int32(count)).reversed() { backward.byNumber[key] = "v\(key)" }
            let bytes = try codec.encode(forward)
            #expect(try codec.encode(backward) == bytes)
            #expect(try codec.decode(AllTypes.self, from: bytes) == forward)
        }
    }

    @Test("A format is chosen by its name")
    func names() {
        #expect(WireFormat(rawValue: "json")?.codec().format == .json)
        #expect(WireFormat(rawValue: "protobuf")?.codec().format == .protobuf)
        #expect(WireFormat(rawValue: "xml")?.codec().format == .xml)
        #expect(WireFormat(rawValue: "yaml") == nil)
        #expect(WireFormat.json.isText && WireFormat.xml.isText && !WireFormat.protobuf.isText)
    }

    @Test(
        "A message beyond the limit is rejected when it is written and when it is read",
        arguments: WireFormat.allCases
    )
    func lengthLimit(format: WireFormat) throws {
        let message = ChatMessage(id: "1", conversation: "c", sender: "s", sentAtMs: 1, text: "hello")
        let bytes = try format.codec().encode(message)
        let exact = format.codec(limits: CodecLimits(maximumLength: bytes.count))
        let short = format.codec(limits: CodecLimits(maximumLength: bytes.count - 1))
        #expect(try exact.decode(ChatMessage.self, from: try exact.encode(message)) == message)
        #expect(codecError { try short.decode(ChatMessage.self, from: bytes) }?.code == .tooLong)
        for room in [0, 4096] {
            var output: [UInt8] = [9]
            output.reserveCapacity(room)
            #expect(codecError { try short.encode(message, into: &output) }?.code == .tooLong)
            #expect(output == [9])
        }
    }

    @Test("Nesting beyond the limit is rejected when it is written and when it is read", arguments: WireFormat.allCases)
    func depthLimit(format: WireFormat) throws {
        func nested(_ levels: Int) -> AllTypes {
            var message = AllTypes()
            message.bool = true
            for _ in 1..<levels {
                var outer = AllTypes()
                outer.children = [message]
                message = outer
            }
            return message
        }
        // In JSON the array between two messages is a level too.
        let fits = format == .json ? 32 : 64
        let codec = format.codec()
        let generous = format.codec(limits: CodecLimits(maximumDepth: 200))
        #expect(try codec.decode(AllTypes.self, from: try codec.encode(nested(fits))) == nested(fits))
        let deep = try generous.encode(nested(fits + 1))
        #expect(codecError { try codec.encode(nested(fits + 1)) }?.code == .tooDeep)
        #expect(codecError { try codec.decode(AllTypes.self, from: deep) }?.code == .tooDeep)
    }

    @Test("A limit of depth is clamped to the depth that the stack can hold")
    func depthIsClamped() {
        var limits = CodecLimits(maximumDepth: .max)
        #expect(limits.maximumDepth == CodecLimits.greatestDepth)
        limits.maximumDepth = -3
        #expect(limits.maximumDepth == 1)
    }

    @Test("A repeated field or a map beyond the limit is rejected when it is read", arguments: WireFormat.allCases)
    func countLimit(format: WireFormat) throws {
        let limited = format.codec(limits: CodecLimits(maximumCount: 3))
        let fill: [(inout AllTypes, Int) -> Void] = [
            { $0.ints = Array(repeating: 1, count: $1) },
            { $0.fixeds = Array(repeating: 1, count: $1) },
            { $0.strings = Array(repeating: "a", count: $1) },
            { message, count in for key in 0..<count { message.byNumber[Int32(key)] = "" } },
        ]
        for fill in fill {
            var message = AllTypes()
            fill(&message, 3)
            #expect(try limited.decode(AllTypes.self, from: try format.codec().encode(message)) == message)
            fill(&message, 4)
            let bytes = try format.codec().encode(message)
            #expect(codecError { try limited.decode(AllTypes.self, from: bytes) }?.code == .tooManyElements)
        }
    }

    @Test("All elements of a message count together, however they are nested", arguments: WireFormat.allCases)
    func elementLimit(format: WireFormat) throws {
        let limited = format.codec(limits: CodecLimits(maximumElements: 12))
        var message = AllTypes()
        message.ints = [1, 2, 3]
        message.strings = ["a"]
        message.byName = ["a": 1, "b": 2]
        // The two children count as elements, too. So there are ten in all.
        message.children = [AllTypes(), AllTypes()]
        message.children[1].inners = [Inner(), Inner()]
        for more in 0...3 {
            message.children[0].fixeds = Array(repeating: 1, count: more)
            let bytes = try format.codec().encode(message)
            if more <= 2 {
                #expect(try limited.decode(AllTypes.self, from: bytes) == message)
            } else {
                #expect(codecError { try limited.decode(AllTypes.self, from: bytes) }?.code == .tooManyElements)
            }
        }
    }

    @Test("A short message of many empty messages is limited by its number of elements", arguments: WireFormat.allCases)
    func emptyElements(format: WireFormat) throws {
        var list = AllTypes()
        list.inners = Array(repeating: Inner(), count: 65_536)
        var message = AllTypes()
        message.children = [list, list, list]
        #expect(try format.codec().decode(AllTypes.self, from: format.codec().encode(message)) == message)
        message.children.append(list)
        let bytes = try format.codec(limits: CodecLimits(maximumElements: .max)).encode(message)
        #expect(bytes.count < (format == .xml ? 3 << 20 : 1 << 20))
        #expect(codecError { try format.codec().decode(AllTypes.self, from: bytes) }?.code == .tooManyElements)
    }
}
