import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests our client with the TLS of mosquitto.
@Suite(
    "mosquitto with TLS",
    .enabled(if: Peers.mosquitto != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct MosquittoTLSTests {
    // With contexts of its own, because other tests make so many that the shared ones are forgotten.
    private let registry = TransportRegistry.standard(keyPassword: { _ in nil })
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    @Test(
        "mosquitto returns messages over TLS at each QoS",
        arguments: TLSVersion.allCases,
        ["mqtts", "mqtt+wss"]
    )
    func messages(version: TLSVersion, scheme: String) async throws {
        let broker = try await MosquittoWithTLS(files, version)
        for qos in 0...2 {
            let query = "publish=a/b&subscribe=a/%2B&qos=\(qos)&\(files.client())"
            let connection = try await registry.connect(broker.url(scheme, query))
            let encryption = try #require(connection.encryption)
            #expect(encryption.version == version.rawValue && encryption.isVerified)
            #expect(encryption.peer?.commonName == "localhost")
            // mosquitto reads its WebSockets only a few times a second, so the messages are sent in parallel.
            let sends = (0..<100).map { number in Task { await connection.send(Payload(text: "\(number)")) } }
            for send in sends { #expect(await send.value == (qos == 0 ? .written : .acknowledged)) }
            var seen: Set<String> = []
            for _ in 0..<100 { seen.insert(try #require(try await connection.text())) }
            #expect(seen.count == 100)
            let large = Payload(longBytes(100_000), topic: "a/large")
            async let outcome = connection.send(large)
            #expect(try await connection.receive()?.content == large)
            #expect(await outcome.isSuccess)
            #expect(try await connection.ping() > .zero)
            #expect(await connection.close() == 0)
            #expect(await connection.closed().error == nil)
        }
    }

    @Test(
        "A client refuses a mosquitto whose certificate it does not trust, or that is for another name",
        arguments: TLSVersion.allCases,
        ["mqtts", "mqtt+wss"]
    )
    func untrusted(version: TLSVersion, scheme: String) async throws {
        let broker = try await MosquittoWithTLS(files, version)
        let wrong: [(String, TLSProblem)] = [
            // mosquitto sends the certificate of its authority too.
            ("ca=\(files.otherAuthority)", .selfSigned),
            ("\(files.client())&server-name=chat.example", .wrongHost),
            // The authorities of the system.
            ("", .selfSigned),
        ]
        for (query, problem) in wrong {
            let error = await #expect(throws: TransportError.self) {
                try await registry.connect(broker.url(scheme, query))
            }
            #expect(error?.code == .certificateRejected && error?.tlsProblem == problem && error?.phase == .secure)
            #expect(error?.isRetryable == false, "\(error)")
        }
    }

    @Test(
        "mosquitto knows a client by its certificate, also after a resumed handshake",
        arguments: TLSVersion.allCases,
        ["mqtts", "mqtt+wss"]
    )
    func clientCertificate(version: TLSVersion, scheme: String) async throws {
        let rules = files.path("rules")
        try "pattern readwrite people/%u/#\n".write(toFile: rules, atomically: true, encoding: .utf8)
        let broker = try await MosquittoWithTLS(
            files,
            version,
            listening: ["require_certificate true", "use_identity_as_username true"],
            settings: ["acl_file \(rules)"]
        )
        let query = "subscribe=people/%23&qos=1&\(files.client(files.ann))"
        for number in 0..<3 {
            let connection = try await registry.connect(broker.url(scheme, query))
            #expect(connection.encryption?.isResumed == (number > 0))
            // mosquitto acknowledges a message that its rules forbid, and drops it. With max_queued_messages 0, version
            // 2.0.11 would close the connection.
            for topic in ["people/ben/x", "people/ann/x"] {
                let outcome = await connection.send(Payload([1], topic: topic))
                #expect(outcome == .acknowledged)
            }
            #expect(try await connection.receive()?.topic == "people/ann/x")
            await connection.close()
        }
    }

    @Test(
        "A client whose certificate is missing or not accepted receives an error that says so",
        arguments: TLSVersion.allCases,
        ["mqtts", "mqtt+wss"]
    )
    func missingCertificate(version: TLSVersion, scheme: String) async throws {
        let broker = try await MosquittoWithTLS(files, version, listening: ["require_certificate true"])
        let wrong: [(CertificateFiles.Pair?, TLSProblem)] = [
            (nil, .certificateRequired), (files.untrusted, .certificateRefused),
        ]
        for (pair, problem) in wrong {
            // The error must not depend on which of the two ends of the connection is noticed first.
            for _ in 0..<10 {
                let error = await #expect(throws: TransportError.self) {
                    try await registry.connect(broker.url(scheme, files.client(pair)))
                }
                #expect(error?.code == .authenticationFailed && error?.tlsProblem == problem, "\(error)")
                #expect(error?.phase == .secure && error?.isRetryable == false)
            }
        }
        await (try await registry.connect(broker.url(scheme, files.client(files.ann)))).close()
    }

    @Test(
        "A client whose connection is cut resumes its TLS session with mosquitto each time",
        arguments: TLSVersion.allCases,
        [FaultProxy.Cut.reset, .finish]
    )
    func resumption(version: TLSVersion, cut: FaultProxy.Cut) async throws {
        let broker = try await MosquittoWithTLS(files, version)
        let proxy = try await FaultProxy.start(to: Endpoint("mqtts://127.0.0.1:\(broker.port)"), seed: 1)
        let port = try #require(proxy.endpoint.port)
        let query = "publish=t&subscribe=t&qos=1&\(files.client())"
        let transport = try registry.transport(for: Endpoint("mqtts://127.0.0.1:\(port)/?\(query)"))
        for number in 0...10 {
            let connection = try await transport.connect(timeout: .seconds(10))
            #expect(connection.encryption?.isResumed == (number > 0), "connection \(number)")
            #expect(connection.encryption?.version == version.rawValue)
            #expect(await connection.send(Payload(text: "\(number)")) == .acknowledged)
            #expect(try await connection.text() == "\(number)")
            await proxy.cut(cut)
            let reason = await connection.closed()
            #expect(reason.error?.isRetryable == true, "\(reason)")
        }
        await proxy.stop()
    }
}
