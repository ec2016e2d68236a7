import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

@Suite("XMPP at Prosody", .peer(Peers.prosody), .timeLimit(.minutes(5)), .ownThread)
struct ProsodyTests {
    private let registry = TransportRegistry.standard

    @Test("Messages return to their sender with any bytes, acknowledged, and pings are answered")
    func own() async throws {
        let prosody = try await aside { try Prosody() }
        for url in [prosody.plain(), prosody.anonymous] {
            let connection = try await registry.connect("\(url)&acks=on")
            #expect(connection.capabilities.acknowledgesMessages && connection.capabilities.hasNativePing)
            let payloads = [
                Payload(text: "a < b & c > \"d\" 'e' é\n\u{1F600}"), Payload((0...255).map { UInt8($0) }), Payload([]),
                Payload(text: "with\r\nreturn and \u{1}"), Payload(text: ""),
                Payload([UInt8](repeating: 7, count: 100_000)),
            ]
            for payload in payloads {
                #expect(await connection.send(payload) == .acknowledged)
                let echo = try await connection.receive()
                #expect(echo?.bytes == payload.bytes && echo?.kind == payload.kind)
            }
            #expect(try await connection.ping() > .zero)
            #expect(await connection.close() == 0)
        }
        let plain = try await registry.connect("\(prosody.plain())&sm=off&acks=on")
        #expect(!plain.capabilities.hasNativePing)
        #expect(await plain.send(Payload(text: "x")) == .written)
        #expect(try await plain.receive()?.bytes == Array("x".utf8))
        await plain.close()
    }

    @Test("Two accounts talk to each other, and a burst keeps its order")
    func partners() async throws {
        let prosody = try await aside { try Prosody() }
        let ann = try await registry.connect(prosody.plain("ann", "&acks=on&to=bob@localhost"))
        let bob = try await registry.connect(prosody.plain("bob", "&acks=on&to=ann@localhost"))
        let sending = Task {
            for number in 0..<200 { #expect(await ann.send(Payload(text: "\(number)")) == .acknowledged) }
        }
        for number in 0..<200 { #expect(try await bob.receive()?.bytes == Array("\(number)".utf8)) }
        await sending.value
        #expect(await bob.send(Payload(text: "done")) == .acknowledged)
        #expect(try await ann.receive()?.bytes == Array("done".utf8))
        await ann.close()
        await bob.close()
        let lost = try await registry.connect(prosody.plain("ann", "&acks=on&to=nobody@localhost"))
        guard case .rejected(let error) = await lost.send(Payload(text: "x")) else {
            Issue.record("a message to nobody was accepted")
            return
        }
        #expect(error.code == .forbidden)
        await lost.close()
    }

    @Test(
        "Direct TLS works, and a wrong password, a wrong domain and a large stanza have their errors",
        .enabled(if: hasOpenSSL)
    )
    func encrypted() async throws {
        let prosody = try await aside { try Prosody() }
        var endpoint = try Endpoint("xmpps://ann:secret@localhost:\(prosody.encryptedPort)")
        endpoint.options = [.init(name: "ca", value: prosody.authority), .init(name: "acks", value: "on")]
        let connection = try await registry.connect(endpoint)
        #expect(connection.encryption != nil)
        #expect(await connection.send(Payload(text: "hello")) == .acknowledged)
        #expect(try await connection.receive()?.bytes == Array("hello".utf8))
        await connection.close()
        endpoint.password = "wrong"
        let refused = await #expect(throws: TransportError.self) { _ = try await registry.connect(endpoint) }
        #expect(refused?.code == .authenticationFailed, "\(String(describing: refused))")
        let unknown = await #expect(throws: TransportError.self) {
            _ = try await registry.connect(prosody.plain().replacing("domain=localhost", with: "domain=example.org"))
        }
        #expect(unknown?.code == .handshakeFailed && unknown?.reason.contains("domain") == true)
        let large = try await registry.connect(prosody.plain("ann", "&acks=on"))
        let outcome = await large.send(Payload([UInt8](repeating: 1, count: 400_000)))
        guard case .unknown(let error) = outcome else {
            Issue.record("a stanza of 500 KB was \(outcome)")
            return
        }
        #expect(error.code == .closedByPeer && error.reason.contains("policy-violation"), "\(error)")
        await large.close()
    }
}
