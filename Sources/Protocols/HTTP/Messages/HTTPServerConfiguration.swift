import TransportAPI

/// The settings of a connection at a server over HTTP/1.1.
package struct HTTPServerConfiguration: Sendable, Hashable {
    /// How many bytes the head of a request may have; 16 KiB by default. Beyond it, the server answers with status 431 and
    /// closes the connection. As many bytes of further requests may arrive before a request is answered.
    package var maximumHeaderBytes = 16 << 10
    /// The largest number of headers of a request; 100 by default. Beyond it, the same happens.
    package var maximumHeaderCount = 100
    /// The largest body of a request in bytes; 1 MiB by default. Beyond it, the server answers with status 413 and closes
    /// the connection before any more of it is buffered.
    package var maximumBody = 1 << 20
    /// How long the first byte of the connection, and the rest of a head after its first byte, may take; 10 s by default. A
    /// body must come with at least 1 KiB per second after this time. Otherwise the server answers with status 408 and
    /// closes the connection.
    package var handshakeTimeout: Duration = .seconds(10)
    /// How long a connection is kept without a request; 60 s by default. Then the server closes it without an answer.
    package var idleTimeout: Duration = .seconds(60)

    /// Creates a configuration with all defaults.
    package init() {}

    /// Checks all settings.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
    package func validate() throws(TransportError) {
        guard maximumHeaderBytes >= 256 else { throw .configuration("maximumHeaderBytes", "must be at least 256") }
        guard maximumHeaderCount >= 10 else { throw .configuration("maximumHeaderCount", "must be at least 10") }
        guard maximumBody >= 0 else { throw .configuration("maximumBody", "must not be negative") }
        guard handshakeTimeout > .zero else { throw .configuration("handshakeTimeout", "must be positive") }
        guard idleTimeout > .zero else { throw .configuration("idleTimeout", "must be positive") }
    }
}
