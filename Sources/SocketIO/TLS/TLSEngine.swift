import Primitives

/// A TLS library. OpenSSL is one; a simulation uses another that makes no real encryption.
package protocol TLSProvider: Sendable {
    /// Whether ``makeContext(_:password:)`` reads files, and is called outside the loop.
    var readsFiles: Bool { get }
    /// Loads certificates and keys.
    ///
    /// - Parameter password: returns the password of the encrypted private key in the file of this name.
    func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext
}

/// How one side uses TLS. Equal settings share one ``TLSContext``.
package struct TLSSettings: Sendable, Hashable {
    /// The side of the handshake.
    package enum Side: Sendable, Hashable { case client, server }
    /// The oldest version that is accepted.
    package enum Version: String, Sendable, Hashable, CaseIterable {
        case tls12 = "1.2"
        case tls13 = "1.3"
    }
    /// Whether a server requests the certificate of its client.
    package enum ClientCertificates: String, Sendable, Hashable, CaseIterable { case off, optional, required }

    package var side: Side
    /// Whether records are datagrams: DTLS 1.2 in place of TLS.
    package var isDatagram = false
    package var minimumVersion = Version.tls12
    /// The newest version that is used.
    package var maximumVersion = Version.tls13
    /// The file, text or directory of the trusted authorities; `nil` for those of the system.
    package var authorities: TLSFile?
    /// The file of this side's certificate, followed by the certificates between it and the authority (PEM).
    package var certificate: TLSFile?
    /// The file of its private key (PEM); `nil` if it is in the file of the certificate.
    package var key: TLSFile?
    /// SHA-256 of the public keys of which the peer's chain must contain one. None if empty.
    package var pins: Set<[UInt8]> = []
    /// The file of revocation lists (PEM).
    package var revocationLists: TLSFile?
    /// Whether a client checks the server's certificate.
    package var verifiesServer = true
    /// Whether a server requests the certificate of its client.
    package var clientCertificates = ClientCertificates.off
    /// The application protocols (ALPN, RFC 7301), the preferred one first.
    package var protocols: [String] = []
    /// Whether a client continues an earlier session of the same server.
    package var resumesSessions = true

    /// Settings of one side with the defaults.
    package init(_ side: Side) {
        self.side = side
    }

    /// The names of the files that a context is made from.
    var files: [TLSFile] { [authorities, certificate, key, revocationLists].compactMap { $0 } }
}

/// The settings of one side with the loaded certificates. It makes the engines of connections.
package protocol TLSContext: AnyObject, Sendable {
    /// Makes the engine of one connection.
    ///
    /// - Parameters:
    ///   - host: the name or address of the server; `nil` at a server.
    ///   - port: the port of the server, which separates the sessions of servers on one host.
    /// - Returns: `nil` without memory.
    func makeEngine(host: String?, port: UInt16) -> (any TLSEngine)?
    /// Makes the engine of one association of datagrams, if the settings are for datagrams.
    ///
    /// - Parameters:
    ///   - host: the name or address of the server; `nil` at a server.
    ///   - port: the port of the server, which separates the sessions of servers on one host.
    ///   - largest: the longest message that is written, in bytes.
    /// - Returns: `nil` without memory, or if the library has no DTLS.
    func makeDatagramEngine(host: String?, port: UInt16, largest: Int) -> (any DatagramTLSEngine)?
}

extension TLSContext {
    /// By default there is no DTLS.
    package func makeDatagramEngine(host _: String?, port _: UInt16, largest _: Int) -> (any DatagramTLSEngine)? { nil }
}

/// TLS of one connection, as a state machine without I/O: records in, records out. It belongs to one loop.
package protocol TLSEngine: AnyObject {
    /// The result of the handshake, once it is complete.
    var description: TLSDescription? { get }
    /// The number of bytes that are decrypted and were not read.
    var pending: Int { get }

    /// How much memory the library uses for this connection, in bytes: during the handshake all of it, and afterwards for the
    /// certificate of the peer. It changes only in ``handshake(_:_:)``.
    var ownMemory: Int { get }

    /// Continues the handshake with received records.
    func handshake(_ input: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep
    /// Decrypts received records.
    func read(
        _ input: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep
    /// Encrypts the beginning of `bytes` in one record. The output has room for it.
    func write(_ bytes: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep
    /// Tells the peer that nothing more will be written (close_notify).
    func end(_ output: inout TLSOutput) -> TLSStep
    /// Whether the engine keeps buffers between two records, until ``rest()``.
    var keepsBuffers: Bool { get }
    /// Whether the peer has requested a renegotiation, and the engine has refused it.
    var hasRefusedRenegotiation: Bool { get }
    /// Frees the buffers of an engine that is not used at present.
    func rest()
}

extension TLSEngine {
    /// By default, it is little.
    package var ownMemory: Int { 0 }
    /// By default, nothing is kept.
    package var keepsBuffers: Bool { false }
    /// By default, the peer cannot request a renegotiation.
    package var hasRefusedRenegotiation: Bool { false }
    /// By default, nothing is freed.
    package func rest() {}
}

/// Memory for the records that an engine wants to send.
package struct TLSOutput {
    /// The memory.
    package let memory: UnsafeMutableRawBufferPointer
    /// How many bytes of it are used.
    package var count = 0

    /// Creates an output into `memory`.
    package init(_ memory: UnsafeMutableRawBufferPointer) {
        self.memory = memory
    }
}

/// The result of one call of an engine.
package struct TLSStep {
    /// How the call ended.
    package enum End {
        /// It did what it was called for: the handshake is complete, or bytes were read or written.
        case done
        /// It needs more records.
        case needsInput
        /// The output is full.
        case needsOutput
        /// The peer has ended its side of the stream.
        case ended
        /// The connection is broken.
        case failed(TLSFailure)
    }

    /// How the call ended.
    package var end: End
    /// The number of bytes of the input that were taken.
    package var consumed = 0
    /// The number of bytes that were read or written.
    package var count = 0

    /// Creates the result of a call.
    package init(_ end: End, consumed: Int = 0, count: Int = 0) {
        self.end = end
        self.consumed = consumed
        self.count = count
    }
}
