/// A response of a server (RFC 9110, section 3.4).
package struct HTTPResponse: Sendable, Hashable {
    /// The status, from 200 to 599.
    package var status: Int
    /// The headers. The server adds Date and those that determine where the response ends: Content-Length,
    /// Transfer-Encoding and Connection. It leaves them out here.
    package var headers: [HTTPHeader]
    /// The body.
    package var body: [UInt8]

    /// Creates a response.
    package init(_ status: Int, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Whether a response with this status may have a body (RFC 9110, section 6.4.1).
    var allowsBody: Bool { status != 204 && status != 304 }

    /// Returns whether the server writes a header itself, because it determines where the response ends, or is Date.
    static func isReserved(_ header: HTTPHeader) -> Bool {
        ["connection", "content-length", "date", "transfer-encoding"].contains { header.isNamed($0) }
    }

    /// Returns the reason phrase of a status (RFC 9110, section 15). Nothing depends on it.
    package static func phrase(_ status: Int) -> String {
        switch status {
        case 100: "Continue"
        case 200: "OK"
        case 201: "Created"
        case 204: "No Content"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 417: "Expectation Failed"
        case 426: "Upgrade Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: status < 300 ? "OK" : "Refused"
        }
    }
}
