import Foundation
import TransportAPI

extension Endpoint {
    /// Reads a URL, whose query has the options of this package.
    ///
    /// - Throws: `.invalidConfiguration` with a sentence that names the wrong part and its allowed values. It does not
    ///   quote the URL.
    public init(_ url: URL) throws(TransportError) {
        try self.init(url.absoluteString)
    }

    /// Reads the URL of a server as it is written for other programs. Its query is sent to the server unchanged, and
    /// contains no options of this package.
    ///
    /// - Parameters:
    ///   - url: The server's URL. Only transports with a handshake of HTTP have a query.
    ///   - options: The options of this package. None by default.
    /// - Throws: `.invalidConfiguration` with a sentence that names the wrong part and its allowed values.
    public init(server url: URL, options: [Option] = []) throws(TransportError) {
        try self.init(server: url.absoluteString, options: options)
    }

    /// The endpoint as a URL to be shown and stored. Like ``/TransportAPI/Endpoint/description``, it has neither user name nor
    /// password, nor the values of headers and of the query for the server, nor keys. A URL is printed in many places, so there
    /// is none with secrets. `nil` if Foundation accepts no such URL.
    public var url: URL? { URL(string: description) }
}
