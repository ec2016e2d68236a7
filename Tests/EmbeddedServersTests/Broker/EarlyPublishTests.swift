import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests `early-publish=on` with the embedded broker, over all transports of MQTT.
@Suite("A client that publishes before CONNACK", .timeLimit(.minutes(5)), .ownThread)
struct EarlyPublishTests {
    private static let schemes = ["mqtt", "mqtt+ws"] + (hasOpenSSL ? ["mqtts", "mqtt+wss"] : [])

    /// A broker that accepts the user `ann`, and the options with which a client trusts it.
    private struct Rig {
        let server: EmbeddedServer
        let scheme: String
        private let trust: String
        private let files: CertificateFiles?

        init(_ scheme: String) async throws {
            self.scheme = scheme
            let isEncrypted = scheme.hasSuffix("s") && scheme != "mqtt+ws"
            files = isEncrypted ? try CertificateFiles() : nil
            trust = files.map { "&ca=\($0.authority)" } ?? ""
            let options = files.map { "?\($0.server())" } ?? ""
            server = try await EmbeddedServer.startBroker("\(scheme)://127.0.0.1:0/\(options)") { credentials in
                credentials.match(user: "ann", password: "secret") ? .accept : .wrongCredentials
            }
        }

        func url(_ options: String = "early-publish=on", user: String = "ann:secret") throws -> String {
            "\(scheme)://\(user)@127.0.0.1:\(try #require(server.endpoint.port))/?\(options)\(trust)"
        }
    }

    @Test("The first message leaves two round trips earlier, and reaches the client's own filter", arguments: schemes)
    func roundTrips(scheme: String) async throws {
        let rig = try await Rig(scheme)
        var roundTrips: [Int] = []
        for mode in ["off", "on"] {
            let url = try rig.url("publish=t&subscribe=t&early-publish=\(mode)")
            let connection = try await TransportRegistry.standard.connect(url)
            #expect(await connection.send(Payload(text: mode)) == .written)
            #expect(try await connection.receive()?.bytes == Array(mode.utf8))
            #expect(await connection.send(Payload(Array("again".utf8), qos: .exactlyOnce)) == .acknowledged)
            #expect(try await connection.receive()?.bytes == Array("again".utf8))
            roundTrips.append(await connection.statistics().handshakeRoundTrips)
            await connection.close()
        }
        // Without it there are those of CONNECT and SUBSCRIBE.
        #expect(roundTrips[0] == roundTrips[1] + 2)
        if scheme == "mqtt" { #expect(roundTrips[1] == 1) }
        await rig.server.stop()
    }

    @Test("All messages to a broker that refuses the client are rejected, and none is passed on", arguments: schemes)
    func refused(scheme: String) async throws {
        let rig = try await Rig(scheme)
        let watcher = try await TransportRegistry.standard.connect(rig.url("subscribe=%23&publish=end"))
        for qos in Payload.QoS.allCases {
            let url = try rig.url("publish=t&early-publish=on", user: "ann:wrong")
            let connection = try await TransportRegistry.standard.connect(url)
            // The broker closes the connection while messages still arrive, and its refusal must not be lost.
            let sends = (0..<100).map { _ in
                Task { await connection.send(Payload(longBytes(20_000), qos: qos)) }
            }
            for send in sends {
                guard case .rejected(let error) = await send.value else {
                    Issue.record("a refused message has another outcome")
                    continue
                }
                #expect(error.code == .authenticationFailed)
            }
            #expect(await connection.closed().error?.code == .authenticationFailed)
        }
        #expect(await watcher.send(Payload(text: "end")) == .written)
        #expect(try await watcher.receive()?.topic == "end")
        await watcher.close()
        await rig.server.stop()
    }

    @Test("A supervisor with wrong credentials refreshes them, and then sends the message", arguments: schemes)
    func refreshed(scheme: String) async throws {
        let rig = try await Rig(scheme)
        let wrong = try rig.url("publish=t&subscribe=t&early-publish=on", user: "ann:wrong")
        let supervisor = try Supervisor(TransportConfiguration(endpoints: [Endpoint(wrong)])) { setup in
            setup.preparation = { endpoint, isRefresh in
                var endpoint = endpoint
                if isRefresh { endpoint.password = "secret" }
                return endpoint
            }
        }
        var messages = supervisor.messages.makeAsyncIterator()
        async let outcome = supervisor.send(Payload(text: "hello"))
        supervisor.connect()
        #expect(await outcome == .written)
        #expect(await messages.next()?.bytes == Array("hello".utf8))
        await supervisor.close()
        await rig.server.stop()
    }

    @Test("A supervisor whose credentials stay wrong ends, and rejects its messages", arguments: schemes)
    func refusedForGood(scheme: String) async throws {
        let rig = try await Rig(scheme)
        let supervisor = try Supervisor(rig.url("publish=t&early-publish=on", user: "ann:wrong"))
        async let outcome = supervisor.send(Payload(text: "hello"))
        supervisor.connect()
        guard case .rejected(let error) = await outcome else {
            Issue.record("a refused message has another outcome")
            return
        }
        #expect(error.code == .authenticationFailed)
        await supervisor.close()
        await rig.server.stop()
    }

    @Test("A client's subscriptions are requested before CONNACK too", arguments: schemes)
    func subscriptions(scheme: String) async throws {
        let rig = try await Rig(scheme)
        let client = try MQTTClient(try await TransportRegistry.standard.connect(rig.url("qos=1&early-publish=on")))
        var lunch = try await client.subscribe("rooms/lunch").makeAsyncIterator()
        #expect(await client.publish(Payload(text: "soup", topic: "rooms/lunch")) == .acknowledged)
        #expect(try await lunch.next()?.bytes == Array("soup".utf8))
        await client.close()
        await rig.server.stop()
    }

    @Test("A URL with a kept session is refused", arguments: schemes)
    func keptSession(scheme: String) async throws {
        let url = "\(scheme)://127.0.0.1:1/?client-id=ann&clean-session=off&early-publish=on"
        let error = await #expect(throws: TransportError.self) { try await TransportRegistry.standard.connect(url) }
        #expect(error?.code == .invalidConfiguration && error?.reason.hasPrefix("early-publish is on") == true)
    }
}
