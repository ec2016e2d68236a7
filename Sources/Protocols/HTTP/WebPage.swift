import TransportAPI

/// A document that a server over WebSocket sends to a browser, as the answer to a plain GET of its path. A HEAD gets the
/// same head.
///
/// Every client gets the same bytes, which are encoded when the page is created, and the date. The connection closes after them. The
/// server applies the rules for the headers Origin and Host (`origins`, `hosts`), and does not call `decide`.
public struct WebPage: Sendable {
    /// The largest body in bytes: 1 MiB. The server copies the body for each client that requests it.
    public static let largestBody = 1 << 20
    /// The largest number of pages of one server.
    public static let largestCount = 64

    /// The path, without a query. The query of a request has no effect.
    public let path: String
    /// The head after the status line and Date, with the empty line, and the body.
    private let head: [UInt8]
    private let body: [UInt8]
    /// The headers, without those that determine where the response ends.
    private let headers: [HTTPHeader]

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - path: the path of its URL: percent-encoded, with its leading slash, without a query. The default is `/`.
    ///   - contentType: its media type; HTML in UTF-8 by default.
    ///   - headers: further headers, such as Content-Security-Policy. The page sets Date, Content-Type, Content-Length
    ///     and Connection itself, and X-Content-Type-Options to `nosniff`.
    ///   - body: the document, of at most ``largestBody`` bytes.
    /// - Throws: `.invalidConfiguration` that names the wrong part.
    public init(
        path: String = "/",
        contentType: String = "text/html; charset=utf-8",
        headers: [HTTPHeader] = [],
        body: [UInt8]
    ) throws(TransportError) {
        guard path.utf8.first == UInt8(ascii: "/"), HTTPSyntax.isVisible(path, except: "?#") else {
            throw .configuration(
                "path",
                "\(path.debugDescription) must begin with a slash and be percent-encoded, without query and fragment"
            )
        }
        guard body.count <= Self.largestBody else {
            throw .configuration("body", "has \(body.count) bytes; allowed are \(Self.largestBody)")
        }
        let own = try [
            HTTPHeader("Content-Type", contentType), HTTPHeader("Content-Length", "\(body.count)"),
            HTTPHeader("Connection", "close"), HTTPHeader("X-Content-Type-Options", "nosniff"),
        ]
        let reserved = own.map(\.name) + ["Date", "Transfer-Encoding"]
        for header in headers {
            guard !reserved.contains(where: { header.isNamed($0) }) else {
                throw .configuration("headers", "may not set '\(header.name)', which the page sets")
            }
        }
        var output = ByteBuffer()
        for header in own + headers { output.append(header: header.name, header.value) }
        output.append(utf8: "\r\n")
        head = output.withUnsafeReadableBytes { Array($0) }
        self.headers = (own + headers).filter { !$0.isNamed("Content-Length") && !$0.isNamed("Connection") }
        self.body = body
        self.path = path
    }

    /// The response of a connection that serves further requests.
    package var response: HTTPResponse { HTTPResponse(200, headers: headers, body: body) }

    /// Writes the response to a GET, or the same without its body to a HEAD (RFC 9110, section 9.3.2).
    ///
    /// - Parameter unixTime: the time of this machine in seconds since 1970; `nil` if it is not known.
    package func write(to output: inout ByteBuffer, withBody: Bool, unixTime: Int64?) {
        output.append(utf8: "HTTP/1.1 200 OK\r\n")
        output.append(date: unixTime)
        output.append(contentsOf: head)
        if withBody { output.append(contentsOf: body) }
    }
}
