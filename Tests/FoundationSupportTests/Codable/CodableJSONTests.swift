import Foundation
import FoundationSupport
import Testing

private enum Table: String, Codable, Sendable, CaseIterable {
    case window, corner
}

private struct Line: Codable, Sendable, Hashable {
    var dish: String
    var count: UInt8
}

private struct Order: Codable, Sendable, Hashable {
    var lines: [Line]
    var prices: [String: Double]
    var table: Table
    var guest: String?
    var placed: Date?

    enum CodingKeys: String, CodingKey {
        case lines, prices, table
        case guest = "guestName"
        case placed
    }

    static let sample = Order(
        lines: [Line(dish: "soup", count: 2)],
        prices: ["soup": 4.5],
        table: .corner,
        guest: "ann"
    )
}

/// A type that refuses what it reads and writes by errors of its own, which quote the message.
private struct Strict: Codable, Sendable {
    struct Refusal: Error { let text: String }

    init(from decoder: any Decoder) throws {
        throw Refusal(text: try decoder.singleValueContainer().decode(String.self))
    }
    init() {}
    func encode(to encoder: any Encoder) throws { throw Refusal(text: "topsecret") }
}

@Suite("Messages of Codable types as JSON")
struct CodableJSONTests {
    private func error<Message>(_ type: Message.Type, _ text: String) throws -> CodecError
    where Message: Codable & Sendable {
        try #require(throws: CodecError.self) { _ = try CodableJSON<Message>().decode(Payload(text: text)) }
    }

    @Test("A message is written as text and read from text and from bytes")
    func roundTrip() throws {
        let codec = CodableJSON<Order>()
        var payload = try codec.encode(.sample)
        #expect(payload.kind == .text)
        #expect(try codec.decode(payload) == .sample)
        payload.kind = .binary
        #expect(try codec.decode(payload) == .sample)
        #expect(try JSONDecoder().decode(Order.self, from: payload.data) == .sample)
    }

    @Test("A codec uses the strategies of its encoder and decoder")
    func strategies() throws {
        let (encoder, decoder) = (JSONEncoder(), JSONDecoder())
        (encoder.dateEncodingStrategy, decoder.dateDecodingStrategy) = (.iso8601, .iso8601)
        let codec = CodableJSON<Date>(encoder: encoder, decoder: decoder)
        let payload = try codec.encode(Date(timeIntervalSince1970: 1_767_225_600))
        #expect(payload == Payload(text: #""2026-01-01T00:00:00Z""#))
        #expect(try codec.decode(payload) == Date(timeIntervalSince1970: 1_767_225_600))
    }

    @Test(
        "An error names the field, what was expected and what was seen",
        arguments: [
            (
                #"{"lines": [{"dish": "topsecret", "count": 1}, {"dish": "topsecret", "count": "topsecret"}]}"#,
                .wrongType, "lines[1].count", "expected UInt8, found a string"
            ),
            (#"{"lines": [{"dish": 7}]}"#, .wrongType, "lines[0].dish", "expected String, found a number"),
            (#"{"lines": {"topsecret": 1}}"#, .wrongType, "lines", "expected an array, found an object"),
            (#"{"lines": [[]]}"#, .wrongType, "lines[0]", "expected an object, found an array"),
            (#"{"lines": null}"#, .wrongType, "lines", "expected an array, found null"),
            (#"{"lines": []}"#, .missingField, "prices", "expected a value for the field, found none"),
            (
                #"{"lines": [{"count": 1}]}"#, .missingField, "lines[0].dish",
                "expected a value for the field, found none"
            ),
            (
                #"{"lines": [], "prices": {"topsecret": "topsecret"}}"#, .wrongType, "prices[*]",
                "expected Double, found a string"
            ),
            (
                #"{"lines": [], "prices": {}, "table": "topsecret"}"#, .invalidValue, "table",
                "expected a value that Order accepts, but it has refused the value of the field"
            ),
            (
                #"{"lines": [], "prices": {}, "table": "window", "guestName": false}"#, .wrongType, "guestName",
                "expected String, found true or false"
            ),
            ("[4711]", .wrongType, nil, "expected an object, found an array"),
            (#""topsecret""#, .wrongType, nil, "expected an object, found a string"),
            (#"{"lines": topsecret"#, .malformed, nil, "expected JSON, found something else"),
            ("topsecret", .malformed, nil, "expected JSON, found something else"),
            ("", .malformed, nil, "expected JSON, found no bytes"),
        ] as [(String, CodecError.Code, String?, String)]
    )
    func mistakes(text: String, code: CodecError.Code, field: String?, problem: String) throws {
        let error = try error(Order.self, text)
        #expect(error.code == code && error.field == field && error.problem == problem, "\(error)")
        #expect(!"\(error)".contains("topsecret") && !"\(error)".contains("4711"))
    }

    @Test(
        "A number that does not fit is named, with its field where Foundation tells it",
        arguments: ["4711", "-1", "1.5"]
    )
    func outOfRange(number: String) throws {
        let error = try error(Order.self, #"{"lines": [{"dish": "topsecret", "count": \#(number)}]}"#)
        #expect(error.code == .numberOutOfRange && error.problem?.hasSuffix("found one that does not fit") == true)
        #expect(!"\(error)".contains("topsecret") && !"\(error)".contains(number))
        #if canImport(Darwin)
        #expect(error.field == "lines[0].count")
        #endif
    }

    @Test("The end of an array is named")
    func endOfArray() throws {
        struct Pair: Codable, Sendable {
            init(from decoder: any Decoder) throws {
                var values = try decoder.unkeyedContainer()
                for _ in 0..<2 { _ = try values.decode(Int.self) }
            }
            func encode(to encoder: any Encoder) throws {}
        }
        let error = try error(Pair.self, "[4711]")
        #expect(error.problem == "expected Int, found the end of the array" && error.field == "[1]", "\(error)")
    }

    @Test("Errors of the app's own coding are named by their type, without their text")
    func ownErrors() throws {
        let reading = try error(Strict.self, #""topsecret""#)
        #expect(reading.code == .invalidValue && reading.problem == "Strict has refused the message by Refusal")
        let writing = try #require(throws: CodecError.self) { _ = try CodableJSON<Strict>().encode(Strict()) }
        #expect(writing.code == .invalidValue)
        #expect(writing.problem == "Strict cannot be encoded, by its own error of Refusal")
    }

    @Test("A number that is not finite is refused with its field")
    func notFinite() throws {
        var order = Order.sample
        order.prices["topsecret"] = .infinity
        let error = try #require(throws: CodecError.self) { _ = try CodableJSON<Order>().encode(order) }
        #expect(error.code == .invalidNumber && error.field == "prices[*]", "\(error)")
        #expect(error.problem == "expected a finite number, found one that JSON cannot represent")
    }

    /// A type that a peer can nest.
    private struct Nested: Codable, Sendable {
        var inner: [Nested]
        var count: Int?

        static func text(_ levels: Int, _ innermost: String = "") -> String {
            // An object and its array are two levels.
            String(repeating: #"{"inner":["#, count: levels / 2) + innermost
                + String(repeating: "]}", count: levels / 2)
        }
    }

    @Test("A message of 64 levels is read on the stack of a thread of iOS, and a deeper one is refused")
    func deep() async throws {
        let result = await withCheckedContinuation { continuation in
            let thread = Thread {
                let codec = CodableJSON<Nested>()
                continuation.resume(returning: Result { try codec.decode(Payload(text: Nested.text(64))) })
            }
            thread.stackSize = 512 << 10
            thread.start()
        }
        #expect(try result.get().inner.count == 1)
        for text in [Nested.text(66), String(repeating: "[", count: 100_000)] {
            let error = try error(Nested.self, text)
            #expect(error.code == .tooDeep)
            #expect(error.problem == "expected at most 64 levels of objects and arrays, found more")
        }
        let shallow = CodableJSON<[[Int]]>(limits: CodecLimits(maximumDepth: 1))
        #expect(throws: CodecError.self) { try shallow.decode(Payload(text: "[[1]]")) }
    }

    @Test("Brackets in a text are no levels, and only UTF-8 is read")
    func brackets() throws {
        let codec = CodableJSON<[String]>(limits: CodecLimits(maximumDepth: 1))
        let texts = [#"[[{"\u{22}"#, #"\\"#, "[", #"\""#]
        #expect(try codec.decode(codec.encode(texts)) == texts)
        let wide = try #require(#"["a"]"#.data(using: .utf16LittleEndian))
        let mark = Data([0xff, 0xfe]) + wide
        for data in [wide, mark, try #require(#"["a"]"#.data(using: .utf32BigEndian))] {
            let error = #expect(throws: CodecError.self) { try codec.decode(Payload(data)) }
            #expect(error?.code == .malformed)
        }
    }

    @Test(
        "A message, a key, and the number of values have limits, which are checked before Foundation reads the message"
    )
    func limits() throws {
        let codec = CodableJSON<[String: [Int]]>(
            limits: CodecLimits(maximumLength: 100, maximumElements: 5, maximumKeyLength: 8)
        )
        // The object, its second member, and the arrays with one value after the first.
        let full = #"{"12345678" : [1,2], "a":[]}"#
        #expect(try codec.decode(Payload(text: full)) == ["12345678": [1, 2], "a": []])
        let marks = "x" + String(repeating: "\u{301}", count: 4)
        let cases: [(String, CodecError.Code, String)] = [
            (#"{"123456789":[]}"#, .keyTooLong, "expected keys of at most 8 bytes, found a longer one"),
            (#"{"\#(marks)":[]}"#, .keyTooLong, "expected keys of at most 8 bytes, found a longer one"),
            (
                #"{"a":[1,2,3], "b":[]}"#, .tooManyElements,
                "expected at most 5 values in arrays and objects, found more"
            ),
            (
                "{}" + String(repeating: " ", count: 99), .tooLong,
                "expected a message of at most 100 bytes, found a longer one"
            ),
        ]
        for (text, code, problem) in cases {
            let error = #expect(throws: CodecError.self) { try codec.decode(Payload(text: text)) }
            #expect(error?.code == code && error?.problem == problem, "\(text): \(error as Any)")
        }
        // A long text that is no key is allowed.
        #expect(
            try CodableJSON<[String]>(limits: CodecLimits(maximumKeyLength: 1)).decode(Payload(text: #"["ab"]"#)) == [
                "ab"
            ]
        )
        let long = #expect(throws: CodecError.self) { try codec.encode(["a": Array(repeating: 1, count: 100)]) }
        #expect(long?.code == .tooLong)
    }

    @Test("A cut or damaged message is an error without its content, or another message")
    func damaged() throws {
        let codec = CodableJSON<Order>()
        let bytes = try codec.encode(Order(lines: [Line(dish: "topsecret", count: 2)], prices: [:], table: .corner))
            .bytes
        for count in 0..<bytes.count {
            let error = #expect(throws: CodecError.self) { try codec.decode(Payload(Array(bytes[..<count]))) }
            #expect(error.map { "\($0)" }?.contains("topsecret") == false)
        }
        for place in bytes.indices {
            for damage in [0x00, 0x22, 0x5b, 0x5c, 0x7b, 0x80, 0xff] as [UInt8] {
                var changed = bytes
                changed[place] = damage
                do throws(CodecError) {
                    _ = try codec.decode(Payload(changed))
                } catch {
                    #expect(!"\(error)".contains("topsecret"))
                }
            }
        }
    }

    @Test("The path of a deep field is cut")
    func longPath() throws {
        let codec = CodableJSON<Nested>(limits: CodecLimits(maximumDepth: 256))
        let text = Nested.text(240, #"{"inner": [], "count": "x"}"#)
        let error = #expect(throws: CodecError.self) { try codec.decode(Payload(text: text)) }
        #expect(error?.field?.hasPrefix("inner[0].inner[0]") == true && error?.field?.hasSuffix("].count") == true)
        #expect((error?.field?.utf8.count ?? 1000) < 300)
    }
}
