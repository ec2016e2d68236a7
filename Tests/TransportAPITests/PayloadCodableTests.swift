import Foundation
import Testing
import TransportAPI

@Suite("Payloads and message identifiers as Codable")
struct PayloadCodableTests {
    private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
        try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(value))
    }

    @Test(
        "A payload is the same after it was encoded and decoded",
        arguments: [
            Payload(text: "Grüße"), Payload([0, 255, 10]), Payload([]), Payload([0xff], kind: .text),
            Payload(Array("x".utf8), kind: .text, topic: "a/b", qos: .exactlyOnce, isRetained: true, isDuplicate: true),
        ]
    )
    func payload(_ payload: Payload) throws {
        #expect(try roundTrip(payload) == payload)
    }

    @Test("Text is encoded as text, and bytes as Base64")
    func form() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        #expect(String(decoding: try encoder.encode(Payload(text: "hi")), as: UTF8.self) == #"{"text":"hi"}"#)
        #expect(String(decoding: try encoder.encode(Payload([1, 2])), as: UTF8.self) == #"{"data":"AQI="}"#)
    }

    @Test(
        "A malformed payload is refused",
        arguments: [
            "{}", #"{"text":"a","data":"AQI="}"#, #"{"data":"A"}"#, #"{"text":"a","qos":3}"#,
        ]
    )
    func malformed(_ json: String) {
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(Payload.self, from: Data(json.utf8)) }
    }

    @Test("A message identifier is encoded as its number")
    func identifier() throws {
        #expect(try roundTrip([MessageID(7)]) == [MessageID(7)])
        #expect(String(decoding: try JSONEncoder().encode([MessageID(7)]), as: UTF8.self) == "[7]")
    }
}
