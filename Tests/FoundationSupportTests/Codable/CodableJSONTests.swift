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

    @Test("JSON of great depth is an error")
    func deep() throws {
        let text = String(repeating: "[", count: 100_000)
        #expect(try error([Int].self, text).code == .malformed)
    }
}
