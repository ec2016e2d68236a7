import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tests endpoints of several transports that are prepared alike.
@Suite("Options that do not fit an endpoint's transport", .timeLimit(.minutes(5)), .ownThread)
struct SkippedOptionTests {
    private func skipped(_ recorder: Recorder) -> [String] {
        recorder.events.compactMap { event in
            if case .optionSkipped(let endpoint, let name, let reason) = event {
                "\(endpoint.scheme): \(name): \(reason)"
            } else {
                nil
            }
        }
    }

    private func addsToken(_ setup: inout Supervisor.Setup) {
        setup.preparation = { endpoint, _ in
            var endpoint = endpoint
            endpoint.options.append(.init(name: "header", value: "Authorization: Bearer S3cret"))
            return endpoint
        }
    }

    @Test("A header of the preparation is skipped where the transport has no headers, and the endpoint works")
    func header() async throws {
        let away = try Away("ws")
        let server = try await PlainServer("tcp")
        let (supervisor, recorder) = try Supervisor.recorded([away.endpoint, server.endpoint]) { addsToken(&$0) }
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")).isSuccess)
        await server.wait(for: 1)
        let events = skipped(recorder)
        #expect(events.count == 1)
        #expect(events.first?.hasPrefix("tcp: header Authorization: tcp:// does not have this option") == true)
        #expect(events.first?.contains("ws://") == true)
        #expect(!recorder.events.contains { "\($0)".contains("S3cret") })
        await supervisor.close()
        await server.stop()
        withExtendedLifetime(away) {}
    }

    @Test("A header still reaches the transport that has headers")
    func fittingHeader() async throws {
        let heads = Locked<[String?]>([])
        let listener = try await TransportRegistry.standard.listen(
            "ws://127.0.0.1:0",
            decide: { request in
                heads.withLock { $0.append(request.header("Authorization")) }
                return .accept
            }
        )
        let (supervisor, recorder) = try Supervisor.recorded([listener.endpoint]) { addsToken(&$0) }
        supervisor.connect()
        await recorder.waitUntilOpen()
        #expect(heads.withLock { $0 } == ["Bearer S3cret"])
        #expect(skipped(recorder).isEmpty)
        await supervisor.close()
        await listener.close()
    }

    @Test("Options of TLS, of WebSocket and of MQTT are skipped by name where they do not fit")
    func others() async throws {
        let server = try await PlainServer("tcp")
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint]) { setup in
            setup.preparation = { endpoint, _ in
                var endpoint = endpoint
                for (name, value) in [("certificate", "/x.pem"), ("key", "/k.pem"), ("clean-session", "off")] {
                    endpoint.options.append(.init(name: name, value: value))
                }
                endpoint.options.append(.init(name: "max-message", value: "1000"))
                return endpoint
            }
        }
        supervisor.connect()
        await recorder.waitUntilOpen()
        let names = recorder.events.compactMap { event -> String? in
            if case .optionSkipped(_, let name, _) = event { name } else { nil }
        }
        #expect(names == ["certificate", "key", "clean-session"])
        await supervisor.close()
        await server.stop()
    }

    @Test("A preparation may change the transport, and options of the old one are skipped")
    func otherScheme() async throws {
        let server = try await PlainServer("tcp")
        let (supervisor, recorder) = try Supervisor.recorded([
            try Endpoint("ws://127.0.0.1:9/chat?subprotocol=chat&header=X-Client:1")
        ]) { setup in
            setup.preparation = { endpoint, _ in
                var endpoint = endpoint
                (endpoint.scheme, endpoint.port, endpoint.path) = ("tcp", server.endpoint.port, "")
                return endpoint
            }
        }
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")).isSuccess)
        #expect(skipped(recorder).map { $0.prefix(24) } == ["ws: subprotocol: tcp:// ", "ws: header X-Client: tcp"])
        await supervisor.close()
        await server.stop()
    }

    @Test("Headers of the configuration are skipped with an event at an endpoint without headers")
    func configured() async throws {
        let server = try await PlainServer("tcp")
        let recorder = Recorder()
        let configuration = TransportConfiguration(
            endpoints: [server.endpoint],
            headers: [try HTTPHeader("X-Key", "S3cret")],
            supervisor: .quick
        )
        let supervisor = try Supervisor(configuration) { $0.observer = recorder }
        supervisor.connect()
        await recorder.waitUntilOpen()
        #expect(skipped(recorder).first?.hasPrefix("tcp: header X-Key: ") == true)
        #expect(!recorder.events.contains { "\($0)".contains("S3cret") })
        await supervisor.close()
        await server.stop()
    }

    @Test("An option that no transport has is still a mistake, in the URL as in the preparation")
    func mistakes() async throws {
        for option in ["header=A:b", "certificate=/x.pem"] {
            let error = #expect(throws: TransportError.self) { try Supervisor("tcp://127.0.0.1:9?\(option)") }
            #expect(error?.code == .invalidConfiguration, "\(option)")
        }
        let server = try await PlainServer("tcp")
        for (name, value) in [("heder", "A:b"), ("max-message", "many")] {
            let (supervisor, recorder) = try Supervisor.recorded([server.endpoint]) { setup in
                setup.preparation = { endpoint, _ in
                    var endpoint = endpoint
                    endpoint.options.append(.init(name: name, value: value))
                    return endpoint
                }
            }
            supervisor.connect()
            await supervisor.closed()
            guard case .closed(let reason) = recorder.states.last else {
                Issue.record("last state: \(String(describing: recorder.states.last))")
                return
            }
            #expect(reason.error?.code == .invalidConfiguration)
            #expect(skipped(recorder).isEmpty)
        }
        await server.stop()
    }
}
