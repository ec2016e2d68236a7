import Primitives
import TransportAPI

/// Writes the XML of a stream.
enum XMPPWriter {
    /// Appends a text with the references that it needs in content and in values in single quotes.
    static func append(escaped text: some Sequence<UInt8>, to output: inout ByteBuffer) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "<"): output.append(utf8: "&lt;")
            case UInt8(ascii: ">"): output.append(utf8: "&gt;")
            case UInt8(ascii: "&"): output.append(utf8: "&amp;")
            case UInt8(ascii: "'"): output.append(utf8: "&apos;")
            default: output.append(byte)
            }
        }
    }

    /// Appends an attribute, with a space before it.
    static func append(_ name: StaticString, _ value: String, to output: inout ByteBuffer) {
        output.append(utf8: " \(name)='")
        append(escaped: value.utf8, to: &output)
        output.append(utf8: "'")
    }

    /// Appends the text of a message. It must be a text of XML (``isText(_:)``).
    static func append(body: [UInt8], to output: inout ByteBuffer) {
        body.withUnsafeBufferPointer { text in
            var start = 0
            for index in text.indices {
                let reference: StaticString
                switch text[index] {
                case UInt8(ascii: "<"): reference = "&lt;"
                case UInt8(ascii: ">"): reference = "&gt;"
                case UInt8(ascii: "&"): reference = "&amp;"
                default: continue
                }
                output.append(contentsOf: UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: text[start..<index])))
                output.append(
                    contentsOf: UnsafeRawBufferPointer(start: reference.utf8Start, count: reference.utf8CodeUnitCount)
                )
                start = index + 1
            }
            output.append(contentsOf: UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: text[start...])))
        }
    }

    /// Whether bytes are a text that arrives unchanged in an element: UTF-8 without characters that XML forbids, and
    /// without carriage returns, which servers write without a reference, so that readers turn them into line feeds. Its
    /// references must not make it more than twice as long.
    static func isText(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBufferPointer { text in
            var references = 0
            for index in text.indices {
                let byte = text[index]
                if byte == UInt8(ascii: "\r") || XMLSyntax.isForbidden(text, at: index) { return false }
                if byte == UInt8(ascii: "<") || byte == UInt8(ascii: ">") || byte == UInt8(ascii: "&") {
                    references += 1
                }
            }
            return references <= text.count / 4 + 64 && UTF8Blocks.areWellFormed(text)
        }
    }
}
