/// Writes the head of a request (RFC 9112, section 3).
package enum HTTPRequestHead {
    /// Appends the head, after which the body follows. All parts are well-formed: the method is a token, and the target has
    /// no spaces and no control characters.
    ///
    /// - Parameters:
    ///   - method: the method, such as `POST`.
    ///   - target: the path and the query: percent-encoded, with the leading slash.
    ///   - headers: all headers but Content-Length. A request needs Host.
    ///   - bodyLength: the length of the body in bytes; `nil` for a request whose method expects none.
    package static func write(
        method: String,
        target: String,
        headers: [HTTPHeader],
        bodyLength: Int?,
        to output: inout ByteBuffer
    ) {
        output.append(utf8: "\(method) \(target) HTTP/1.1\r\n")
        for header in headers { output.append(header: header.name, header.value) }
        if let bodyLength { output.append(header: "Content-Length", "\(bodyLength)") }
        output.append(utf8: "\r\n")
    }
}
