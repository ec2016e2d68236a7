import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

/// Tests that no variable of the environment weakens a program that links this package. The two that name authorities are
/// the exception: ``EnvironmentAuthorityTests``.
@Suite(
    "A hostile environment of a program",
    .enabled(if: Peers.closeAndExit != nil && hasOpenSSL),
    .timeLimit(.minutes(5)),
    .ownThread
)
struct HostileEnvironmentTests {
    private let folder: ScratchFolder
    /// An authority that the program must not trust, and a server's certificate of it.
    private let authority: ThrowAwayAuthority
    private let issued: ThrowAwayAuthority.Issued

    /// The effect of the configuration file that the environment names.
    enum Configuration: String, CaseIterable {
        /// It weakens the defaults of every context.
        case weak
        /// It activates a provider without algorithms, which deactivates the default one.
        case unusable
    }

    init() throws {
        folder = try ScratchFolder()
        authority = try ThrowAwayAuthority("Authority of the attacker")
        issued = try authority.issue(.init("localhost", names: ["DNS:localhost", "IP:127.0.0.1"]))
    }

    /// Returns the variables that OpenSSL reads, or that this or other programs read or have read, with values that help an
    /// attacker.
    private func variables(_ configuration: Configuration) throws -> [String] {
        let section =
            switch configuration {
            case .weak:
                """
                ssl_conf = ssl
                [ssl]
                system_default = weak
                [weak]
                MinProtocol = TLSv1
                MaxProtocol = TLSv1.2
                CipherString = ALL:COMPLEMENTOFALL:@SECLEVEL=0
                Ciphersuites = TLS_AES_128_CCM_8_SHA256
                Groups = P-192:P-256
                Options = UnsafeLegacyRenegotiation
                """
            case .unusable:
                """
                providers = providers
                [providers]
                null = only
                [only]
                activate = 1
                """
            }
        let file = try folder.write("\(configuration).cnf", "openssl_conf = all\n[all]\n\(section)\n")
        let trusted = try folder.write("authority.pem", authority.certificate)
        return [
            "IM_TRIAL_TLS=\(authority.certificate)\(issued.certificate)\(issued.key)", "OPENSSL_CONF=\(file)",
            "OPENSSL_CONF_INCLUDE=\(folder.path)", "OPENSSL_MODULES=\(folder.path)", "OPENSSL_ENGINES=\(folder.path)",
            "CTLOG_FILE=\(trusted)", "CURL_CA_BUNDLE=\(trusted)", "REQUESTS_CA_BUNDLE=\(trusted)",
            "NODE_EXTRA_CA_CERTS=\(trusted)", "SSL_CA_FILE=\(trusted)", "SSLKEYLOGFILE=\(folder.path)/keys",
            "OPENSSL_ia32cap=~0x200000200000000", "HTTPS_PROXY=http://127.0.0.1:1", "ALL_PROXY=http://127.0.0.1:1",
        ]
    }

    /// Starts a program that connects to a port. Returns its last line.
    ///
    /// - Parameter usesOpenSSL: whether the program itself has used OpenSSL before, and so loaded its configuration file.
    private func connect(to port: UInt16, _ variables: [String], usesOpenSSL: Bool) async throws -> String {
        let program = try #require(Peers.closeAndExit)
        let words = ["-u", "SSL_CERT_FILE", "-u", "SSL_CERT_DIR", "-u", "OPENSSL_CONF"] + variables
        let more = usesOpenSSL ? ["openssl"] : []
        let lines = try await aside {
            let peer = try Peer("/usr/bin/env", words + [program, "tls://127.0.0.1:\(port)/", "1"] + more)
            var lines: [String] = []
            while let line = peer.line() { lines.append(line) }
            return lines
        }
        try #require(!usesOpenSSL || lines.first?.hasPrefix("OPENSSL_init_ssl: ") == true, "\(lines)")
        return try #require(lines.last)
    }

    @Test("A client trusts no authority of the environment", arguments: Configuration.allCases, [false, true])
    func trust(configuration: Configuration, usesOpenSSL: Bool) async throws {
        let certificate = try folder.write("server.pem", issued.certificate + issued.key)
        let listener = try await TransportRegistry.standard.listen("tls://127.0.0.1:0/?certificate=\(certificate)")
        let port = try #require(listener.endpoint.port)
        // A program that trusts the server after all gets an end.
        async let accepted: Void = {
            while let connection = try? await listener.accept() { await connection.close() }
        }()
        let line = try await connect(to: port, variables(configuration), usesOpenSSL: usesOpenSSL)
        #expect(line.contains("is not trusted"), "\(line)")
        await listener.close()
        await accepted
    }

    @Test(
        "A client offers the same versions, ciphers and groups in every environment",
        arguments: Configuration.allCases,
        [false, true]
    )
    func offer(configuration: Configuration, usesOpenSSL: Bool) async throws {
        let usual = try await hello { _ = try await connect(to: $0, [], usesOpenSSL: false) }
        let variables = try variables(configuration)
        let offered = try await hello { _ = try await connect(to: $0, variables, usesOpenSSL: usesOpenSSL) }
        #expect(offered == usual)
        // TLS 1.3 and 1.2, and not the ciphers and the group of the file.
        #expect(usual.versions == [0x0304, 0x0303])
        #expect(usual.ciphers.contains(0x1301) && usual.ciphers.contains(0xc02b), "\(usual.ciphers)")
        #expect(!usual.ciphers.contains(0x1305) && !usual.ciphers.contains(0x0002), "\(usual.ciphers)")
        #expect(usual.groups.contains(0x001d) && !usual.groups.contains(0x0013), "\(usual.groups)")
    }

    @Test(
        "The configuration of these tests weakens a program that reads it",
        .enabled(if: Peers.openssl != nil),
        arguments: Configuration.allCases
    )
    func control(configuration: Configuration) async throws {
        let openssl = try #require(Peers.openssl)
        let variables = try variables(configuration)
        func client(_ port: UInt16) async throws {
            let words = variables + [openssl, "s_client", "-connect", "127.0.0.1:\(port)"]
            try await aside {
                let peer = try Peer("/usr/bin/env", words)
                while peer.line() != nil {}
            }
        }
        switch configuration {
        case .weak:
            let weakened = try await hello(client)
            #expect(!weakened.versions.contains(0x0304) && weakened.groups.contains(0x0013), "\(weakened)")
        case .unusable:
            await #expect(throws: HelloListener.NoClient.self) { try await hello(client) }
        }
    }

    /// Returns the first message of a client that `connect` starts. Its connection ends after that.
    private func hello(_ connect: (UInt16) async throws -> Void) async throws -> ClientHello {
        let listener = try HelloListener()
        async let record = aside { Result { try listener.record() } }
        do {
            try await connect(listener.port)
        } catch {
            listener.stop()
            throw error
        }
        listener.stop()
        return try #require(ClientHello(try await record.get()))
    }
}

/// The versions, ciphers and groups that a ClientHello offers (RFC 8446, section 4.1.2).
private struct ClientHello: Equatable {
    var versions: [UInt16] = []
    var ciphers: [UInt16] = []
    var groups: [UInt16] = []
    var signatures: [UInt16] = []

    init?(_ record: [UInt8]) {
        // The header of the message, the version and the random number.
        var rest = record.dropFirst(4 + 2 + 32)
        func take(_ lengthBytes: Int, _ from: inout ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
            let count = from.prefix(lengthBytes).reduce(0) { $0 << 8 | Int($1) }
            guard from.count >= lengthBytes + count else { return nil }
            let taken = from.dropFirst(lengthBytes).prefix(count)
            from = from.dropFirst(lengthBytes + count)
            return taken
        }
        func numbers(_ bytes: ArraySlice<UInt8>) -> [UInt16] {
            let bytes = Array(bytes)
            return stride(from: 0, to: bytes.count - 1, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
        }
        guard record.first == 1, take(1, &rest) != nil, let ciphers = take(2, &rest), take(1, &rest) != nil,
            var extensions = take(2, &rest)
        else { return nil }
        self.ciphers = numbers(ciphers)
        while let kind = numbers(extensions.prefix(2)).first {
            extensions = extensions.dropFirst(2)
            guard var content = take(2, &extensions) else { return nil }
            switch kind {
            case 10: groups = numbers(take(2, &content) ?? [])
            case 13: signatures = numbers(take(2, &content) ?? [])
            case 43: versions = numbers(take(1, &content) ?? [])
            default: break
            }
        }
    }
}

/// A socket that accepts one connection and reads its first record.
private final class HelloListener: Sendable {
    /// The client has sent no record.
    struct NoClient: Error {}

    private let descriptor: Int32
    let port: UInt16

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        port = try withUnsafeMutablePointer(to: &address) { pointer in
            try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { general in
                try #require(bind(descriptor, general, length) == 0 && listen(descriptor, 1) == 0)
                try #require(getsockname(descriptor, general, &length) == 0)
            }
            return UInt16(bigEndian: pointer.pointee.sin_port)
        }
    }

    deinit { close(descriptor) }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        address.sin_port = port.bigEndian
        return address
    }

    /// Ends ``record()`` if no client has connected, by a connection without a byte.
    func stop() {
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(client) }
        var address = Self.loopback(port)
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// The content of the first record.
    func record() throws -> [UInt8] {
        let client = accept(descriptor, nil, nil)
        defer { close(client) }
        func read(_ count: Int) throws(NoClient) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: count)
            guard recv(client, &bytes, count, Int32(MSG_WAITALL)) == count else { throw NoClient() }
            return bytes
        }
        let header = try read(5)
        return try read(Int(header[3]) << 8 | Int(header[4]))
    }
}
