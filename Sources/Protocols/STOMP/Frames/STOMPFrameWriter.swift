/// Writes frames of STOMP 1.2. Their texts must be without NUL, and those of CONNECT without line ends, which
/// ``STOMPConfiguration`` and the client's core check.
package enum STOMPFrameWriter {
    /// Writes a frame. A body has its content-length, which replaces one among the headers.
    package static func write(_ frame: STOMPFrame, into output: inout ByteBuffer) {
        begin(frame.command, into: &output)
        for header in frame.headers where !header.name.utf8.elementsEqual("content-length".utf8) {
            write(header.name, header.value, isEscaped: frame.command.isEscaped, into: &output)
        }
        if frame.command.mayHaveBody {
            end(frame.body, into: &output)
        } else {
            end(into: &output)
        }
    }

    /// Writes the line of the command.
    static func begin(_ command: STOMPCommand, into output: inout ByteBuffer) {
        output.append(utf8: command.name)
        output.append(newline)
    }

    /// Writes a header.
    static func write(_ name: String, _ value: String, isEscaped: Bool = true, into output: inout ByteBuffer) {
        append(name, isEscaped: isEscaped, into: &output)
        output.append(UInt8(ascii: ":"))
        append(value, isEscaped: isEscaped, into: &output)
        output.append(newline)
    }

    /// Ends a frame without a body.
    static func end(into output: inout ByteBuffer) {
        output.append(newline)
        output.append(0)
    }

    /// Ends a frame with this body, whose size is the last header.
    static func end(_ body: [UInt8], into output: inout ByteBuffer) {
        // The longest number has 19 digits.
        output.reserve(body.count.addingSaturated(40))
        output.append(utf8: "content-length:\(body.count)\n\n")
        output.append(contentsOf: body)
        output.append(0)
    }

    /// A heart-beat is an empty line.
    static func heartBeat(into output: inout ByteBuffer) {
        output.append(newline)
    }

    private static let newline = UInt8(ascii: "\n")

    /// How many bytes a text has when it is escaped.
    static func escapedSize(_ text: String) -> Int {
        text.utf8.reduce(0) { $0 + (escape($1) == nil ? 1 : 2) }
    }

    private static func append(_ text: String, isEscaped: Bool, into output: inout ByteBuffer) {
        guard isEscaped, text.utf8.contains(where: { escape($0) != nil }) else { return output.append(utf8: text) }
        for byte in text.utf8 {
            if let letter = escape(byte) {
                output.append(UInt8(ascii: "\\"))
                output.append(letter)
            } else {
                output.append(byte)
            }
        }
    }

    /// The letter that stands for a byte after a backslash; `nil` if the byte needs no escape.
    @inline(__always)
    private static func escape(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "\r"): UInt8(ascii: "r")
        case UInt8(ascii: "\n"): UInt8(ascii: "n")
        case UInt8(ascii: ":"): UInt8(ascii: "c")
        case UInt8(ascii: "\\"): byte
        default: nil
        }
    }
}
