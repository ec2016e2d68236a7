import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests our server with `openssl s_client`, over length-framed TCP.
@Suite(
    "The client of the openssl command",
    .enabled(if: Peers.openssl != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct OpenSSLClientTests {
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    /// A client that connects and checks the chain and the name of the server.
    private func start(
        _ listener: any Listener,
        _ version: String,
        name: String = "localhost",
        _ options: [String] = []
    ) throws -> Peer {
        let port = try #require(listener.endpoint.port)
        let words =
            ["s_client", "-connect", "127.0.0.1:\(port)", version, "-CAfile", files.authority, "-verify_return_error"]
            + ["-verify_hostname", name, "-servername", name] + options
        return try Peer(try #require(Peers.openssl), words)
    }

    private func listen(
        _ framing: String = "u32",
        _ options: String = "",
        observer: ServerObserver? = nil
    ) async throws -> any Listener {
        let url = "tls://127.0.0.1:0/?framing=\(framing)&\(files.server())\(options)"
        return try await TransportRegistry.standard.listen(url, observer: observer)
    }

    /// Sends `text` with the length of `framing` before it. Texts are shorter than 128 bytes.
    private func write(_ text: String, to peer: Peer, framing: String = "u32") throws {
        let length = String(UnicodeScalar(UInt8(text.utf8.count)))
        let zeros = ["varint": 0, "u16": 1, "u32": 3, "framed": 3][framing] ?? 0
        try peer.write(String(repeating: "\0", count: zeros) + length + text)
    }

    /// Waits until the client prints a line that contains `text`.
    private func wait(for text: String, of client: Peer) async throws {
        try #require(try await aside { client.wait(for: text) }, "'\(text)' did not come")
    }

    /// Sends a message in each direction.
    private func exchange(_ text: String, _ client: Peer, _ connection: any Connection) async throws {
        try write(text, to: client)
        #expect(try await connection.text() == text)
        #expect(await connection.send(Payload(text: "\(text), too\n")).isSuccess)
        try await wait(for: "\(text), too", of: client)
    }

    @Test(
        "Messages reach the other side in both directions with each framing",
        arguments: TLSVersion.allCases,
        ["framed", "u16", "u32", "varint"]
    )
    func messages(version: TLSVersion, framing: String) async throws {
        let listener = try await listen(framing)
        let client = try start(listener, version.option)
        let connection = try #require(try await listener.accept())
        #expect(connection.encryption?.version == version.rawValue)
        #expect(connection.encryption?.peer == nil && connection.encryption?.isVerified == false)
        // The client reads its input only when the handshake is complete.
        try await wait(for: "Verify return code: 0 (ok)", of: client)
        for number in 0..<3 {
            try write("to the server \(number)", to: client, framing: framing)
            #expect(try await connection.text() == "to the server \(number)")
            #expect(await connection.send(Payload(text: "to the client \(number)\n")).isSuccess)
            try await wait(for: "to the client \(number)", of: client)
        }
        let large = String(repeating: "x", count: 60_000) + "end"
        async let outcome = connection.send(Payload(text: large + "\n"))
        try await wait(for: large, of: client)
        #expect(await outcome.isSuccess)
        // At the end of its input, the client closes the connection with close_notify.
        async let status = aside { try client.finish() }
        let reason = await connection.closed()
        #expect(reason.error?.tlsProblem == nil && reason.initiator == .peer || framing == "framed", "\(reason)")
        // This package's own framing has a close frame, which is missing.
        #expect(framing != "framed" || reason.error?.code == .connectionLost, "\(reason)")
        #expect(try await status == 0)
        await listener.close()
    }

    @Test("A closed connection ends the client with close_notify", arguments: TLSVersion.allCases)
    func close(version: TLSVersion) async throws {
        let listener = try await listen()
        let client = try start(listener, version.option)
        let connection = try #require(try await listener.accept())
        try await wait(for: "Verify return code: 0 (ok)", of: client)
        try await exchange("hello", client, connection)
        async let left = connection.close()
        // The client prints this at close_notify, and "read:errno=0" at an end without it.
        try await wait(for: "closed", of: client)
        #expect(try await aside { try client.finish() } == 0)
        #expect(await left == 0)
        await listener.close()
    }

    @Test(
        "A client that expects another name, or trusts another authority, does not connect",
        arguments: TLSVersion.allCases
    )
    func untrusting(version: TLSVersion) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let listener = try await listen(observer: { sink.yield($0) })
        var ends = events.makeAsyncIterator()
        let untrusted: [(String, String, String)] = [
            ("chat.example", files.authority, "hostname mismatch"),
            ("localhost", files.otherAuthority, "unable to get local issuer certificate"),
        ]
        for (name, authority, problem) in untrusted {
            let client = try start(listener, version.option, name: name, ["-CAfile", authority])
            try await wait(for: problem, of: client)
            #expect(try await aside { try client.finish() } != 0)
            let event = try #require(await ends.next())
            #expect(!event.wasOpen && event.reason.error?.tlsProblem == .certificateRefused, "\(event)")
        }
        await listener.close()
    }

    @Test(
        "A client with an old TLS version is refused",
        arguments: [("-tls1_1", "1.2"), ("-tls1", "1.2"), ("-tls1_2", "1.3")]
    )
    func oldClient(version: String, minimum: String) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let listener = try await listen("u32", "&min-tls=\(minimum)", observer: { sink.yield($0) })
        // At its usual security level, the client itself does not offer old versions.
        let client = try start(listener, version, ["-cipher", "DEFAULT@SECLEVEL=0"])
        try await wait(for: "alert protocol version", of: client)
        #expect(try await aside { try client.finish() } != 0)
        var ends = events.makeAsyncIterator()
        let event = try #require(await ends.next())
        #expect(!event.wasOpen && event.reason.error?.code == .secureHandshakeFailed)
        #expect(event.reason.error?.tlsProblem == .protocolVersion, "\(event)")
        await listener.close()
    }

    @Test("A server knows a client by its certificate", arguments: TLSVersion.allCases)
    func clientCertificate(version: TLSVersion) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let options = "&ca=\(files.authority)&client-certificates=required"
        let listener = try await listen("u32", options, observer: { sink.yield($0) })
        let client = try start(listener, version.option, ["-cert", files.ann.certificate, "-key", files.ann.key])
        let connection = try #require(try await listener.accept())
        #expect(connection.encryption?.peer?.commonName == "ann" && connection.encryption?.isVerified == true)
        #expect(connection.identity?.name == "ann")
        try await wait(for: "Verify return code: 0 (ok)", of: client)
        try await exchange("hello", client, connection)
        await connection.close()

        let bare = try start(listener, version.option)
        let alert = version == .tls12 ? "alert handshake failure" : "alert certificate required"
        try await wait(for: alert, of: bare)
        for await event in events where !event.wasOpen {
            #expect(event.reason.error?.tlsProblem == .certificateRequired, "\(event)")
            break
        }
        await listener.close()
    }

    @Test("A client resumes its session, also several times", arguments: TLSVersion.allCases)
    func resumption(version: TLSVersion) async throws {
        let listener = try await listen()
        let file = files.path("session")
        for number in 0..<4 {
            let reading = number > 0 ? ["-sess_in", file] : []
            let client = try start(listener, version.option, ["-sess_out", file] + reading)
            let connection = try #require(try await listener.accept())
            #expect(connection.encryption?.isResumed == (number > 0), "connection \(number)")
            #expect(connection.encryption?.version == version.rawValue)
            try await wait(for: number > 0 ? "Reused, TLSv1" : "New, TLSv1", of: client)
            try await wait(for: "Verify return code: 0 (ok)", of: client)
            // With TLS 1.3, the client stores the session when it reads the first message.
            try await exchange("message \(number)", client, connection)
            #expect(try await aside { try client.finish() } == 0)
            #expect(await connection.closed().error == nil)
        }
        await listener.close()
    }

    @Test("A client that connects again at once resumes its session five times with TLS 1.2")
    func reconnect() async throws {
        let listener = try await listen()
        let client = try start(listener, "-tls1_2", ["-reconnect"])
        for number in 0...5 {
            let connection = try #require(try await listener.accept())
            #expect(connection.encryption?.isResumed == (number > 0), "connection \(number)")
            if number < 5 {
                let reason = await connection.closed()
                #expect(reason.error == nil, "\(reason)")
            } else {
                for _ in 0..<5 { try await wait(for: "Reused, TLSv1.2", of: client) }
                try await wait(for: "Verify return code: 0 (ok)", of: client)
                try await exchange("hello", client, connection)
                await connection.close()
            }
        }
        await listener.close()
    }

    @Test("A server refuses to renegotiate, and its connection ends with an error")
    func renegotiation() async throws {
        let listener = try await listen()
        let client = try start(listener, "-tls1_2")
        let connection = try #require(try await listener.accept())
        try await wait(for: "Verify return code: 0 (ok)", of: client)
        try await exchange("before", client, connection)
        try client.write("R\n")
        try await wait(for: "RENEGOTIATING", of: client)
        // The server answers by a warning (RFC 5246, section 7.2.2). OpenSSL's client then ends the connection.
        try await wait(for: "no renegotiation", of: client)
        let reason = await connection.closed()
        #expect(reason.error?.tlsProblem != nil, "\(reason)")
        // The server serves others.
        let other = try start(listener, "-tls1_2")
        let next = try #require(try await listener.accept())
        try await wait(for: "Verify return code: 0 (ok)", of: other)
        try await exchange("after", other, next)
        await next.close()
        await listener.close()
    }

    @Test("A server answers the key updates of its client", arguments: ["k", "K"])
    func keyUpdate(command: String) async throws {
        let listener = try await listen()
        let client = try start(listener, "-tls1_3")
        let connection = try #require(try await listener.accept())
        try await wait(for: "Verify return code: 0 (ok)", of: client)
        for number in 0..<50 {
            try client.write("\(command)\n")
            try await wait(for: "KEYUPDATE", of: client)
            try await exchange("message \(number)", client, connection)
        }
        #expect(try await aside { try client.finish() } == 0)
        #expect(await connection.closed().error == nil)
        await listener.close()
    }

    @Test("A client that only updates its keys is ended at its 33rd update in a row")
    func manyKeyUpdates() async throws {
        let listener = try await listen()
        let client = try start(listener, "-tls1_3")
        let connection = try #require(try await listener.accept())
        try await wait(for: "Verify return code: 0 (ok)", of: client)
        for _ in 0..<33 {
            try client.write("K\n")
            try await wait(for: "KEYUPDATE", of: client)
        }
        let reason = await connection.closed()
        #expect(reason.error?.tlsProblem == .tooManyEmptyRecords, "\(reason)")
        await listener.close()
    }
}
