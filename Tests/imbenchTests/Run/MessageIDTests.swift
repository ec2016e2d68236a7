import Testing

@testable import imbench

@Suite("Message ids")
struct MessageIDTests {
    @Test("carry a sequence number there and back", arguments: [0, 1, 9_999, 123_456_789_012_345] as [UInt64])
    func roundTrip(number: UInt64) {
        #expect(MessageID.text(number).utf8.count == 15)
        #expect(MessageID.number(MessageID.text(number)) == number)
    }

    @Test("are refused when they are none", arguments: ["", "12345", "00000000000000x", "0000000000000000"])
    func refused(text: String) {
        #expect(MessageID.number(text) == nil)
    }
}
