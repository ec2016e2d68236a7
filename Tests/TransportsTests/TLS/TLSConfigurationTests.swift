import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Mistakes in the options of an encrypted transport, and secrets that no error contains.
@Suite("Mistakes in the options of TLS", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct TLSConfigurationTests {
    /// Files in a folder of their own.
    private final class Files {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tls-\(UUID().uuidString)")

        init() throws {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        func write(_ name: String, _ text: String) throws -> String {
            let file = folder.appending(path: name)
            try text.write(to: file, atomically: true, encoding: .utf8)
            return file.path
        }
    }

    private let files: Files
    private let authority: ThrowAwayAuthority
    private let issued: ThrowAwayAuthority.Issued

    init() throws {
        files = try Files()
        authority = try ThrowAwayAuthority("Test authority")
        issued = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
    }

    /// The error of a server with these options.
    private func server(_ options: EndpointOptions, registry: TransportRegistry = .standard) async throws
        -> TransportError
    {
        let error = await #expect(throws: TransportError.self) {
            try await registry.listen(tlsEndpoint("wss", port: 0, options))
        }
        return try #require(error)
    }

    /// The error of a client with these options. No server is needed for it.
    private func client(_ options: EndpointOptions) async throws -> TransportError {
        let silent = try RawServer(.silent)
        defer { silent.stop() }
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(tlsEndpoint("wss", port: silent.port, options))
        }
        return try #require(error)
    }

    private func expect(
        _ error: TransportError,
        _ option: String,
        _ parts: String...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(
            error.code == .invalidConfiguration && error.phase == .configure,
            "\(error)",
            sourceLocation: sourceLocation
        )
        #expect(error.reason.hasPrefix("\(option) "), "\(error)", sourceLocation: sourceLocation)
        #expect(!error.isRetryable, sourceLocation: sourceLocation)
        for part in parts { #expect(error.reason.contains(part), "\(error)", sourceLocation: sourceLocation) }
        #expect(isSilent("\(error)", issued.key), "\(error)", sourceLocation: sourceLocation)
    }

    /// Whether `text` contains no line of the key.
    private func isSilent(_ text: String, _ key: String) -> Bool {
        !key.split(separator: "\n").contains { text.contains($0) || text.contains($0.replacing("+", with: "%2B")) }
    }

    // MARK: Files

    @Test("A file that is missing, a directory or not in PEM format is named with its option")
    func wrongFiles() async throws {
        let missing = files.folder.appending(path: "missing.pem").path
        let text = try files.write("text.txt", "no certificate\n")
        let empty = try files.write("empty.pem", "")
        let key = try files.write("key.pem", issued.key)
        let certificate = try files.write("certificate.pem", issued.certificate)
        let binary = try files.write("binary.der", "\u{30}\u{1}\u{0}\u{0}")
        expect(try await server(["certificate": missing]), "certificate", missing, "No such file or directory")
        expect(try await server(["certificate": files.folder.path]), "certificate", "which is not a file")
        for file in [text, empty, binary, key] {
            expect(
                try await server(["certificate": file, "key": key]),
                "certificate",
                file,
                "contains no certificate in PEM format"
            )
        }
        expect(
            try await server(["certificate": certificate, "key": missing]),
            "key",
            missing,
            "No such file or directory"
        )
        expect(try await server(["certificate": certificate, "key": files.folder.path]), "key", "which is not a file")
        for file in [text, empty, certificate] {
            expect(
                try await server(["certificate": certificate, "key": file]),
                "key",
                file,
                "contains no private key in PEM format"
            )
        }
        // Without key, the key must be in the file of the certificate.
        expect(
            try await server(["certificate": certificate]),
            "key",
            "is not set, and '\(certificate)' of certificate contains no private key in PEM format"
        )
        expect(try await client(["ca": missing]), "ca", missing, "No such file or directory")
        expect(try await client(["ca": text]), "ca", "contains no certificate in PEM format")
        expect(try await client(["crl": certificate]), "crl", "contains no revocation list in PEM format")
        expect(try await client(["crl": files.folder.path]), "crl", "which is not a file")
        expect(try await client(["certificate": missing]), "certificate", missing)
        expect(try await client(["key": key]), "key", "is set without certificate")
        expect(try await client(["ca": ""]), "ca", "must be the path of a file")
    }

    @Test("A file that may not be read is named with its option", .enabled(if: getuid() != 0))
    func unreadableFile() async throws {
        let file = try files.write("certificate.pem", issued.certificate + issued.key)
        try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: file)
        expect(try await server(["certificate": file]), "certificate", file, "Permission denied")
    }

    @Test("A broken certificate behind a good one is an error")
    func brokenChain() async throws {
        let broken = issued.certificate + issued.certificate.replacing("MI", with: "!!")
        expect(
            try await server(["certificate": broken, "key": issued.key]),
            "certificate",
            "a text in PEM format",
            "cannot be used"
        )
        expect(try await client(["ca": broken]), "ca", "cannot be used")
    }

    @Test("A certificate that is too weak to be used is an error of the server's configuration")
    func weakCertificate() async throws {
        var request = ThrowAwayAuthority.Request("localhost")
        request.key = .rsa(1024)
        let weak = try authority.issue(request)
        expect(try await server(["certificate": weak.certificate, "key": weak.key]), "certificate", "ee key too small")
        let middle = try ThrowAwayAuthority("Middle", under: authority, isWeak: true)
        let leaf = try middle.issue(.init("localhost"))
        expect(
            try await server(["certificate": leaf.certificate + middle.certificate, "key": leaf.key]),
            "certificate",
            "ca key too small"
        )
    }

    @Test("A directory of authorities is accepted")
    func directory() async throws {
        let host = try await TLSHost(issued)
        let error = try await host.refusal(["ca": files.folder.path])
        #expect(error.tlsProblem == .unknownIssuer, "\(error)")
        await host.stop()
    }

    @Test("Certificate and key can be in one file, in any order, with other text between them")
    func combinedFile() async throws {
        let combined = try files.write(
            "both.pem",
            "Bag Attributes\n" + issued.key + "# the certificate\n" + issued.certificate
        )
        let listener = try await TransportRegistry.standard.listen(
            tlsEndpoint("wss", port: 0, ["certificate": combined])
        )
        let options: EndpointOptions = ["ca": "the authority\n" + authority.certificate]
        let connection = try await TransportRegistry.standard.connect(
            tlsEndpoint("wss", port: listener.endpoint.port, options)
        )
        await connection.close()
        await listener.close()
    }

    // MARK: Keys

    @Test("The key of another certificate is named")
    func otherKey() async throws {
        for key in [ThrowAwayAuthority.Request.Key.ec, .rsa(2048)] {
            var request = ThrowAwayAuthority.Request("other")
            request.key = key
            let other = try authority.issue(request)
            let file = try files.write("other.pem", other.key)
            expect(
                try await server(["certificate": issued.certificate, "key": file]),
                "key",
                "'\(file)', which does not belong to the certificate in a text in PEM format"
            )
        }
    }

    @Test("An encrypted key needs its password")
    func encryptedKey() async throws {
        let locked = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]), password: "correct horse")
        let options: EndpointOptions = ["certificate": locked.certificate, "key": locked.key]
        expect(
            try await server(options),
            "key",
            "has a text in PEM format, which is encrypted, and no password was given in code"
        )
        for wrong in ["battery staple", "", String(repeating: "x", count: 5000)] {
            let error = try await server(options, registry: .over(OpenSSL.shared) { _ in wrong })
            expect(error, "key", "cannot be decrypted with the given password")
            #expect(wrong.isEmpty || !error.reason.contains(wrong))
        }
        expect(
            try await server(options, registry: .over(OpenSSL.shared) { _ in nil }),
            "key",
            "cannot be decrypted with the given password"
        )
        let registry = TransportRegistry.over(OpenSSL.shared) { _ in "correct horse" }
        let listener = try await registry.listen(tlsEndpoint("wss", port: 0, options))
        let connection = try await TransportRegistry.standard.connect(
            tlsEndpoint("wss", port: listener.endpoint.port, ["ca": authority.certificate])
        )
        await connection.close()
        await listener.close()
    }

    @Test("The password is asked for by the name of the file")
    func passwordByFile() async throws {
        let locked = try authority.issue(.init("localhost"), password: "horse")
        let key = try files.write("locked.pem", locked.key)
        let registry = TransportRegistry.over(OpenSSL.shared) { $0 == key ? "horse" : nil }
        let listener = try await registry.listen(
            tlsEndpoint("wss", port: 0, ["certificate": locked.certificate, "key": key])
        )
        await listener.close()
    }

    // MARK: Options

    @Test(
        "A pin that is no pin is named",
        arguments: ["sha256/", "sha256/AAAA", "sha1/AAAA", "x", String(repeating: "A", count: 44)]
    )
    func wrongPin(pin: String) async throws {
        expect(try await client(["pin": pin]), "pin", "has '\(pin)', which is not sha256/")
    }

    @Test("A server that requests certificates of clients needs their authority", arguments: ["optional", "required"])
    func clientAuthority(choice: String) async throws {
        expect(
            try await server([
                "certificate": issued.certificate, "key": issued.key, "client-certificates": choice,
            ]),
            "client-certificates",
            "is \(choice), which needs ca"
        )
    }

    @Test("A server that requests no certificates of clients cannot have anything to check them with")
    func uncheckedClients() async throws {
        let own: EndpointOptions = ["certificate": issued.certificate, "key": issued.key]
        let pin = "sha256/\(String(repeating: "A", count: 43))="
        for (name, value) in [("ca", authority.certificate), ("crl", try authority.revoke([1])), ("pin", pin)] {
            expect(
                try await server(own + [name: value]),
                "client-certificates",
                "is off, but \(name) is set",
                "allowed is optional or required"
            )
        }
    }

    @Test("A client that trusts any certificate cannot have anything to check")
    func trustsAny() async throws {
        let pin = "sha256/\(String(repeating: "A", count: 43))="
        let others: [EndpointOptions] = [
            ["ca": authority.certificate], ["pin": pin], ["crl": try authority.revoke([1])],
        ]
        for other in others {
            expect(
                try await client(other + ["dangerously-trust-any-certificate": "on"]),
                "dangerously-trust-any-certificate",
                "would not be checked"
            )
        }
    }

    @Test("A server needs a certificate")
    func noCertificate() async throws {
        expect(
            try await server([:]),
            "certificate",
            "is missing; a server with TLS needs a certificate file"
        )
    }

    @Test(
        "A wrong value is named with the allowed ones",
        arguments: [
            ("min-tls", "1.1", "1.2"), ("max-tls", "1.4", "1.3"), ("resumption", "maybe", "off"),
            ("dangerously-trust-any-certificate", "yes please", "off"), ("alpn", "", "1 to 255"),
        ]
    )
    func wrongValue(option: String, value: String, allowed: String) async throws {
        expect(try await client([option: value]), option, allowed)
    }

    @Test(
        "A wrong value of a server's option is named with the allowed ones",
        arguments: [("client-certificates", "yes", "optional"), ("tls-timeout", "5", "1ms"), ("crl", "", "a file")]
    )
    func wrongServerValue(option: String, value: String, allowed: String) async throws {
        expect(try await server([option: value]), option, allowed)
    }

    @Test(
        "A name that no certificate contains, or that is read in two ways, is refused",
        arguments: [".", ".example.com", "010.0.0.1", "127.0.0.01", "café.example"]
    )
    func wrongName(name: String) async throws {
        expect(try await client(["server-name": name]), "server-name")
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(Endpoint(scheme: "wss", host: name, port: 1))
        }
        #expect(error?.code == .invalidConfiguration && error?.reason.hasPrefix("host ") == true, "\(error)")
    }

    @Test("The options of TLS are unknown to a plain transport")
    func plainTransport() async throws {
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect("ws://127.0.0.1:1/?min-tls=1.3")
        }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains("min-tls") == true)
    }

    // MARK: Secrets

    @Test("The text of a key is in no printed URL", arguments: ["", "Bag Attributes\n", "\n"])
    func printedURL(prefix: String) async throws {
        let options: EndpointOptions = [
            "certificate": issued.certificate, "key": prefix + issued.key, "ca": prefix + " " + issued.key,
        ]
        let endpoint = tlsEndpoint("wss", port: 1, options)
        for text in [
            "\(endpoint)", "\(String(reflecting: endpoint))",
            "\(Mirror(reflecting: endpoint).children.map { "\($0)" })",
        ] {
            #expect(isSilent(text, issued.key) && isSilent(text.removingPercentEncoding ?? "", issued.key))
        }
        let listener = try await TransportRegistry.standard.listen(
            tlsEndpoint("wss", port: 0, ["certificate": issued.certificate, "key": prefix + issued.key])
        )
        #expect(isSilent("\(listener.endpoint)", issued.key))
        await listener.close()
    }

    @Test("A key without its first and last line is in no error and no printed URL")
    func keyWithoutLines() async throws {
        let lines = issued.key.split(separator: "\n").filter { !$0.hasPrefix("-----") }
        for key in [lines.joined(), lines.joined(separator: "\n")] {
            let error = try await server(["certificate": issued.certificate, "key": key])
            expect(error, "key", "has a value of \(key.utf8.count) bytes, which cannot be read")
            let endpoint = tlsEndpoint("wss", port: 1, ["certificate": issued.certificate, "key": key])
            #expect(isSilent("\(endpoint) \(endpoint.options)".removingPercentEncoding ?? "", issued.key))
        }
    }

    @Test("A printed transport has neither keys nor credentials")
    func printedTransport() throws {
        for scheme in ["wss", "dtls"] {
            var options: EndpointOptions = ["certificate": issued.certificate, "key": issued.key]
            if scheme == "wss" {
                options =
                    options + ["proxy": "http://ann:s3cret@proxy.example", "header": "Authorization: Bearer t0ken"]
            }
            let endpoint = tlsEndpoint(scheme, port: 1, options)
            let transport = try TransportRegistry.standard.transport(for: endpoint)
            var dumped = ""
            dump(transport, to: &dumped)
            dump(endpoint.options, to: &dumped)
            let text = "\(transport) \(String(reflecting: transport)) \(endpoint.options) \(dumped)"
            #expect(isSilent(text, issued.key) && isSilent(text.removingPercentEncoding ?? "", issued.key))
            for secret in ["s3cret", "t0ken", "YW5uOnMzY3JldA"] { #expect(!text.contains(secret), "\(text)") }
        }
    }

    @Test("A header without a colon is in no error and no printed URL")
    func headerWithoutColon() throws {
        let endpoint = tlsEndpoint("wss", port: 1, ["header": "Bearer s3cret"])
        let error = #expect(throws: TransportError.self) { try TransportRegistry.standard.transport(for: endpoint) }
        #expect(error?.reason == "header has a value without a colon; write it as Name:value")
        #expect(!"\(endpoint)".contains("s3cret"))
    }

    @Test("The text of a key is in no error", arguments: ["", "Bag Attributes\n", "\n"])
    func silentErrors(prefix: String) async throws {
        let key = prefix + issued.key
        let other = try authority.issue(.init("other"))
        let mistakes: [EndpointOptions] = [
            ["certificate": other.certificate, "key": key], ["certificate": key, "key": key], ["certificate": key],
            ["certificate": issued.certificate, "key": key, "ca": key, "client-certificates": "required"],
            ["certificate": issued.certificate, "key": key.replacing("-----END", with: "-----")],
            ["certificate": issued.certificate, "keys": key],
            ["certificate": issued.certificate, "key": key, "min-tls": "1.1"],
        ]
        for options in mistakes {
            let error = try await server(options)
            #expect(error.code == .invalidConfiguration)
            #expect(isSilent("\(error)", issued.key), "\(error)")
        }
        // An address in use, with the endpoint in the sentence.
        let port = try ReservedPort(isDatagram: false)
        let first = try await TransportRegistry.standard.listen("tcp://127.0.0.1:\(port.port)")
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.listen(
                tlsEndpoint("wss", port: port.port, ["certificate": issued.certificate, "key": key])
            )
        }
        #expect(error?.code == .addressInUse && isSilent("\(String(describing: error))", issued.key))
        await first.close()
    }
}
