/// The items of a query or a body of type application/x-www-form-urlencoded (WHATWG URL, section 5).
package struct FormQuery: Sendable, Hashable {
    /// The largest number of items that are read.
    package static let maximumItems = 100

    /// One item.
    package struct Item: Sendable, Hashable {
        /// The name, decoded.
        package var name: String
        /// The value, decoded.
        package var value: String
    }

    /// The items, in their order.
    package var items: [Item] = []

    /// Creates an empty query.
    package init() {}

    /// Parses a query without its question mark. Empty items are left out. A percent sign without two hexadecimal digits
    /// means itself, and bytes that are not UTF-8 become U+FFFD. Returns `nil` if there are more items than
    /// ``maximumItems``.
    package init?(_ text: String) {
        self.init(Array(text.utf8))
    }

    /// Parses the bytes of a query or of a body in the same way.
    package init?(_ bytes: [UInt8]) {
        let pieces = bytes.split(separator: UInt8(ascii: "&"), maxSplits: .max, omittingEmptySubsequences: true)
        guard pieces.count <= Self.maximumItems else { return nil }
        items = pieces.map { piece in
            let name = piece.prefix { $0 != UInt8(ascii: "=") }
            return Item(name: Self.decode(name), value: Self.decode(piece.dropFirst(name.count + 1)))
        }
    }

    /// The value of the only item with a name; `nil` if there is none, or more than one.
    package subscript(name: String) -> String? {
        let found = items.filter { $0.name == name }
        return found.count == 1 ? found.first?.value : nil
    }

    /// Returns the value of the only item with a name as a number. Returns `nil` if there is none or more than one, or if the
    /// value is anything but decimal digits.
    package func number(_ name: String) -> UInt64? {
        guard let value = self[name], !value.isEmpty, value.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            return nil
        }
        return UInt64(value)
    }

    /// Appends an item.
    package mutating func append(_ name: String, _ value: some CustomStringConvertible) {
        items.append(Item(name: name, value: value.description))
    }

    /// The items as a query: percent-encoded, without a question mark.
    package var text: String {
        items.map { "\(Self.encode($0.name))=\(Self.encode($0.value))" }.joined(separator: "&")
    }

    /// Returns whether a query has an item whose decoded name begins with `prefix`.
    package static func contains(prefix: String, _ query: String) -> Bool {
        query.utf8.split(separator: UInt8(ascii: "&")).contains { isNamed(prefix, $0) }
    }

    /// Returns a query without the items whose decoded names begin with `prefix`. The other items keep their bytes.
    package static func removing(prefix: String, from query: String) -> String {
        let pieces = query.utf8.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        let kept = pieces.filter { !isNamed(prefix, $0) }
        return String(decoding: kept.joined(separator: [UInt8(ascii: "&")]).map { $0 }, as: UTF8.self)
    }

    private static func isNamed(_ prefix: String, _ piece: Substring.UTF8View) -> Bool {
        decode(piece.prefix { $0 != UInt8(ascii: "=") }).utf8.starts(with: prefix.utf8)
    }

    private static func decode(_ bytes: some Collection<UInt8>) -> String {
        var rest = bytes[...]
        var decoded: [UInt8] = []
        while let byte = rest.first {
            rest = rest.dropFirst()
            if byte == UInt8(ascii: "+") {
                decoded.append(UInt8(ascii: " "))
            } else if byte == UInt8(ascii: "%"), let value = hexadecimal(rest.prefix(2)) {
                decoded.append(value)
                rest = rest.dropFirst(2)
            } else {
                decoded.append(byte)
            }
        }
        return String(decoding: decoded, as: UTF8.self)
    }

    private static func hexadecimal(_ digits: some Collection<UInt8>) -> UInt8? {
        let values = digits.compactMap { hexadecimal($0) }
        return values.count == 2 ? values[0] << 4 | values[1] : nil
    }

    /// Returns the value of a hexadecimal digit.
    static func hexadecimal(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    private static func encode(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                encoded.append(byte)
            case UInt8(ascii: " "): encoded.append(UInt8(ascii: "+"))
            default: encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
