/// How the end of a body is found (RFC 9112, section 6.3). Two peers that find different ends read different requests, so
/// everything that could be read in two ways is refused (section 11.2).
enum HTTPBodyFraming: Sendable, Hashable {
    /// By the number of bytes; 0 without a body. A number that is too large for its type is `Int.max`.
    case length(Int)
    /// By the chunk of length 0.
    case chunked
    /// By the end of the connection, after a response.
    case untilEnd

    /// Finds the framing of a request.
    ///
    /// - Parameter isOld: whether the request is of HTTP/1.0.
    init(request headers: [HTTPHeader], isOld: Bool) throws(HTTPMessageError) {
        self = try Self.announced(headers, isOld: isOld) ?? .length(0)
    }

    /// Finds the framing of a final response to a request whose method is not HEAD or CONNECT.
    ///
    /// - Parameter isOld: whether the response is of HTTP/1.0.
    init(response headers: [HTTPHeader], status: Int, isOld: Bool) throws(HTTPMessageError) {
        if status == 204 || status == 304 {
            self = .length(0)
        } else {
            self = try Self.announced(headers, isOld: isOld) ?? .untilEnd
        }
    }

    private static func announced(_ headers: [HTTPHeader], isOld: Bool) throws(HTTPMessageError) -> HTTPBodyFraming? {
        let (codings, lengths) = (headers.values("Transfer-Encoding"), headers.values("Content-Length"))
        guard codings.isEmpty || lengths.isEmpty else {
            throw .malformed("there are both Content-Length and Transfer-Encoding")
        }
        guard codings.count <= 1, lengths.count <= 1 else {
            throw .malformed("there is more than one Content-Length or Transfer-Encoding header")
        }
        if let coding = codings.first {
            guard !isOld else { throw .malformed("a message of HTTP/1.0 has a Transfer-Encoding") }
            let members = coding.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
            guard let last = members.last, HTTPSyntax.equalIgnoringCase(bytes: HTTPSyntax.trim(last), "chunked".utf8)
            else { throw .malformed("the last transfer coding is not 'chunked'") }
            guard members.count == 1 else { throw .unsupported("there is a transfer coding other than 'chunked'") }
            return .chunked
        }
        return try lengths.first.map { (text) throws(HTTPMessageError) in .length(try length(text)) }
    }

    private static func length(_ text: String) throws(HTTPMessageError) -> Int {
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            throw .malformed("the Content-Length is not a number")
        }
        return Int(text) ?? .max
    }
}
