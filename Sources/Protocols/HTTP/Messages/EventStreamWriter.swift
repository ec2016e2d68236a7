/// Writes a stream of type text/event-stream (WHATWG HTML, section 9.2.5, "Parsing an event stream").
package enum EventStreamWriter {
    /// Appends a comment and an empty line. It keeps a stream alive and is no event.
    ///
    /// - Parameter text: the comment: without line ends.
    package static func comment(_ text: String, to output: inout ByteBuffer) {
        output.append(utf8: ": \(text)\n\n")
    }

    /// Appends an event and the empty line that ends it.
    ///
    /// - Parameters:
    ///   - id: the id; `nil` for none.
    ///   - type: the type: not empty, without line ends; `nil` for a message.
    ///   - data: the data: UTF-8 without CR, which a reader could not distinguish from LF.
    package static func event(id: UInt64?, type: String?, data: [UInt8], to output: inout ByteBuffer) {
        output.reserve(data.count + 64)
        if let id { output.append(utf8: "id: \(id)\n") }
        if let type { output.append(utf8: "event: \(type)\n") }
        data.withUnsafeBytes { bytes in
            var start = 0
            while true {
                let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
                output.append(utf8: "data: ")
                output.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
                output.append(UInt8(ascii: "\n"))
                guard end < bytes.count else { break }
                start = end + 1
            }
        }
        output.append(UInt8(ascii: "\n"))
    }
}
