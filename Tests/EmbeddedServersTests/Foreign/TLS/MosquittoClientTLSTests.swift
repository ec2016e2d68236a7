import EmbeddedServers
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests mosquitto's clients with our broker over TLS.
@Suite(
    "mosquitto's clients over TLS",
    .enabled(if: Peers.mosquittoPub != nil && Peers.mosquittoSub != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct MosquittoClientTLSTests {
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    private func words(_ port: UInt16, _ pair: CertificateFiles.Pair?, _ arguments: String, ca: String? = nil)
        -> [String]
    {
        let own = pair.map { ["--cert", $0.certificate, "--key", $0.key] } ?? []
        return ["-h", "127.0.0.1", "-p", "\(port)", "--cafile", ca ?? files.authority] + own
            + arguments.split(separator: " ").map(String.init)
    }

    /// Runs mosquitto_pub to its end, and returns its status.
    private func publish(
        _ port: UInt16,
        _ version: TLSVersion,
        _ pair: CertificateFiles.Pair?,
        _ arguments: String,
        ca: String? = nil
    ) async throws -> Int32 {
        let words = words(port, pair, arguments, ca: ca)
        return try await aside { [files] in
            try files.start(Peers.mosquittoPub, words, speaking: version).finish()
        }
    }

    @Test(
        "A client sends and receives messages at each QoS, with or without a certificate",
        arguments: TLSVersion.allCases,
        [false, true]
    )
    func messages(version: TLSVersion, hasCertificate: Bool) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let url = "mqtts://127.0.0.1:0/?\(files.server(requiresCertificate: hasCertificate))"
        let server = try await EmbeddedServer.startBroker(url, observer: { sink.yield($0) })
        let port = try #require(server.endpoint.port)
        let pair = hasCertificate ? files.ann : nil
        // Without stdbuf, mosquitto_sub would buffer its lines until its end, because it writes to a pipe.
        let reading =
            ["-oL", try #require(Peers.mosquittoSub)]
            + words(port, pair, "-d -q 2 -t chat/# -F got=%q=%t=%p")
        let subscriber = try await aside { [files] in
            let subscriber = try files.start("/usr/bin/stdbuf", reading, speaking: version)
            try #require(subscriber.wait(for: "Subscribed"))
            return subscriber
        }
        for qos in 0...2 {
            #expect(try await publish(port, version, pair, "-q \(qos) -t chat/room -m hello\(qos)") == 0)
        }
        func received(_ count: Int) async throws -> [String] {
            try await aside {
                var seen: [String] = []
                while seen.count < count, let line = subscriber.line() {
                    if line.hasPrefix("got=") { seen.append(line) }
                }
                return seen
            }
        }
        // A message with QoS 2 takes two round trips, so a later one with QoS 1 could arrive before it.
        #expect(try await received(3) == (0...2).map { "got=\($0)=chat/room=hello\($0)" })
        let query = hasCertificate ? files.client(pair) : files.client()
        let own = try await TransportRegistry.standard.connect("mqtts://127.0.0.1:\(port)/?qos=1&\(query)")
        #expect(await own.send(Payload(Array("ours".utf8), topic: "chat/room")) == .acknowledged)
        #expect(try await received(1) == ["got=1=chat/room=ours"])
        await own.close()
        // A client that disconnects ends without an error.
        #expect(
            try await aside {
                subscriber.signal(SIGINT)
                return try subscriber.finish()
            } == 0
        )
        var ends = events.makeAsyncIterator()
        for _ in 0..<5 {
            let event = try #require(await ends.next())
            #expect(event.wasOpen && event.reason.error == nil, "\(event)")
        }
        await server.stop()
    }

    @Test("A client that trusts another authority does not connect", arguments: TLSVersion.allCases)
    func untrusting(version: TLSVersion) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let url = "mqtts://127.0.0.1:0/?\(files.server())"
        let server = try await EmbeddedServer.startBroker(url, observer: { sink.yield($0) })
        let port = try #require(server.endpoint.port)
        #expect(try await publish(port, version, nil, "-q 1 -t t -m x", ca: files.otherAuthority) != 0)
        var ends = events.makeAsyncIterator()
        let event = try #require(await ends.next())
        #expect(!event.wasOpen && event.reason.error?.tlsProblem == .certificateRefused, "\(event)")
        await server.stop()
    }

    @Test("A broker refuses a client whose certificate is missing or not trusted", arguments: TLSVersion.allCases)
    func refused(version: TLSVersion) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let url = "mqtts://127.0.0.1:0/?\(files.server(requiresCertificate: true))"
        let server = try await EmbeddedServer.startBroker(url, observer: { sink.yield($0) })
        let port = try #require(server.endpoint.port)
        var ends = events.makeAsyncIterator()
        for (pair, problem) in [(nil, TLSProblem.certificateRequired), (files.untrusted, .unknownIssuer)] {
            #expect(try await publish(port, version, pair, "-q 1 -t t -m x") != 0)
            let event = try #require(await ends.next())
            #expect(!event.wasOpen && event.reason.error?.tlsProblem == problem, "\(event)")
        }
        #expect(try await publish(port, version, files.ann, "-q 1 -t t -m x") == 0)
        await server.stop()
    }
}
