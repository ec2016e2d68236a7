/// The id of a chat message that carries its sequence number: short enough for Swift to keep it without an allocation.
enum MessageID {
    private static let digits = 15

    static func text(_ number: UInt64) -> String {
        String(unsafeUninitializedCapacity: digits) { target in
            var rest = number
            for index in (0..<digits).reversed() {
                target[index] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
            return digits
        }
    }

    static func number(_ text: String) -> UInt64? {
        guard text.utf8.count == digits else { return nil }
        var number: UInt64 = 0
        for digit in text.utf8 {
            guard digit >= 0x30, digit <= 0x39 else { return nil }
            number = number * 10 + UInt64(digit - 0x30)
        }
        return number
    }
}
