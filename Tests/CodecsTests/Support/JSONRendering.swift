import Codecs

/// Renders a JSON value as text that is the same for every parser: numbers as the bits of their double, strings as their UTF-8,
/// and all members of objects in their order.
enum JSONRendering {
    static func text(_ value: JSONValue) -> String {
        switch value.kind {
        case .null: "N"
        case .bool(let value): value ? "T" : "F"
        case .integer(let value): number(Double(value))
        case .number(let value): number(value)
        case .string(let value): string(value)
        case .array(let values): "[" + values.map { text($0) }.joined() + "]"
        case .object(let members): "{" + members.map { string($0.name) + text($0.value) }.joined() + "}"
        }
    }

    /// Takes documents. Gives the text of each, or nothing if Python rejects it. An exclamation mark marks the values that
    /// this package rejects: numbers that are not finite, and strings with half a surrogate pair.
    static let pythonScript = """
        import json, math

        def render(value):
            if value is None:
                return "N"
            if isinstance(value, bool):
                return "T" if value else "F"
            if isinstance(value, float):
                return ("D" if math.isfinite(value) else "!D") + struct.pack(">d", value).hex()
            if isinstance(value, str):
                isLone = any("\\ud800" <= letter <= "\\udfff" for letter in value)
                return ("!S" if isLone else "S") + value.encode("utf-8", "surrogatepass").hex()
            if isinstance(value, list):
                return "[" + "".join(map(render, value)) + "]"
            return "{" + "".join(render(name) + render(member) for name, member in value) + "}"

        while more():
            try:
                # Integers become doubles, as RFC 8259 advises. Else minus zero has no sign, and no number is too large.
                give(render(json.loads(take(), parse_int=float, object_pairs_hook=tuple)).encode())
            except ValueError:
                give(b"")
        """

    private static func number(_ value: Double) -> String {
        "D" + withUnsafeBytes(of: value.bitPattern.bigEndian) { hex($0) }
    }

    private static func string(_ value: String) -> String { "S" + hex(value.utf8) }

    private static func hex(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
