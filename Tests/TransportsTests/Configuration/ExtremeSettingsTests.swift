import Codecs
import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Gives every number and every duration that a user can set its extremes. A value is refused with `invalidConfiguration`, or
/// the exchange of a message ends with an outcome. Nothing traps, and nothing waits for ever.
@Suite("Settings at their extremes", .timeLimit(.minutes(5)), .ownThread)
struct ExtremeSettingsTests {
    static let schemes = ["memory", "tcp", "ws", "mqtt", "mqtt+ws", "udp"]
    static let numbers: [Int] = [.min, -1, 0, 1, 2, .max - 1, .max]
    static let durations: [Duration] = [
        .seconds(Int64.min), .seconds(-1), .nanoseconds(-1), .zero, .nanoseconds(1), .seconds(Int64.max),
        Duration(secondsComponent: .max, attosecondsComponent: 999_999_999_999_999_999),
    ]
    /// Values of options in URLs, of every unit.
    static let texts = [
        "0", "-1", "1", "\(Int.max)", "18446744073709551616", "0B", "1B", "1GiB", "9007199254740992GiB", "0s", "1ms",
        "1000h",
        "-1s", "99999999999999999999h",
    ]

    private static let quick: SupervisorConfiguration = {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .immediate
        configuration.maximumAttempts = 3
        return configuration
    }()

    /// Changes one setting. The name is for failures.
    private struct Change<Root>: Sendable {
        let name: String
        let apply: @Sendable (inout Root) -> Void
    }

    private static func changes<Root>(
        numbers paths: [(String, any WritableKeyPath<Root, Int> & Sendable)] = [],
        optionalNumbers: [(String, any WritableKeyPath<Root, Int?> & Sendable)] = [],
        durations: [(String, any WritableKeyPath<Root, Duration> & Sendable)] = [],
        optionalDurations: [(String, any WritableKeyPath<Root, Duration?> & Sendable)] = []
    ) -> [Change<Root>] {
        func all<Value: Sendable>(
            _ paths: [(String, any WritableKeyPath<Root, Value> & Sendable)],
            _ values: [Value]
        ) -> [Change<Root>] {
            paths.flatMap { name, path in
                values.map { value in Change(name: "\(name) = \(value)") { $0[keyPath: path] = value } }
            }
        }
        return all(paths, numbers) + all(optionalNumbers, numbers) + all(durations, Self.durations)
            + all(optionalDurations, Self.durations)
    }

    private static let supervisorChanges: [Change<SupervisorConfiguration>] =
        changes(
            numbers: [
                ("messageBuffer", \.messageBuffer), ("messageBufferBytes", \.messageBufferBytes),
                ("outbox.maximumCount", \.outbox.maximumCount), ("outbox.maximumBytes", \.outbox.maximumBytes),
                ("delivery.window", \.delivery.window), ("requests.maximumOpen", \.requests.maximumOpen),
                ("requests.maximumHandlers", \.requests.maximumHandlers),
            ],
            optionalNumbers: [("maximumAttempts", \.maximumAttempts)],
            durations: [
                ("connectTimeout", \.connectTimeout), ("stableAfter", \.stableAfter),
                ("keepalive.timeout", \.keepalive.timeout),
                ("delivery.acknowledgementReminder", \.delivery.acknowledgementReminder),
                ("requests.acknowledgementDelay", \.requests.acknowledgementDelay),
            ],
            optionalDurations: [
                ("maximumElapsed", \.maximumElapsed), ("outbox.maximumAge", \.outbox.maximumAge),
            ]
        )
        + durations.flatMap { duration in
            [
                Change(name: "interval = \(duration)") { $0.keepalive.interval = .fixed(duration) },
                Change(name: "fixed delay = \(duration)") { $0.backoff = .fixed(duration) },
                Change(name: "schedule = \(duration)") { $0.backoff = .schedule([duration], givesUp: false) },
                Change(name: "initial = \(duration)") {
                    $0.backoff = .exponential(initial: duration, maximum: .seconds(1), multiplier: 2, jitter: .full)
                },
                Change(name: "maximum = \(duration)") {
                    $0.backoff = .exponential(initial: .zero, maximum: duration, multiplier: 1e300, jitter: .equal)
                },
                Change(name: "adaptive = \(duration)") {
                    $0.keepalive.adaptive = AdaptiveKeepaliveConfiguration()
                    $0.keepalive.adaptive?.minimum = duration
                },
                Change(name: "resolution = \(duration)") {
                    $0.keepalive.adaptive = AdaptiveKeepaliveConfiguration()
                    $0.keepalive.adaptive?.resolution = duration
                },
            ]
        }
        + [Double.nan, .infinity, -1, 0, 1, .greatestFiniteMagnitude].map { factor in
            Change(name: "multiplier = \(factor)") {
                $0.backoff = .exponential(
                    initial: .zero,
                    maximum: .seconds(1),
                    multiplier: factor,
                    jitter: .full
                )
            }
        }

    /// Sends one message to a session server and back. Returns the error of a setting that was refused.
    private func exchange(
        _ client: SupervisorConfiguration,
        _ server: SessionServer.Configuration = SessionServer.Configuration(),
        over url: String
    ) async throws -> TransportError? {
        let listener = try await TransportRegistry.standard.listen(url)
        defer { Task { await listener.close() } }
        // The outcome of the server's answer. A server with the smallest limits ends sessions whose messages its app has not
        // taken yet, so there may be no answer.
        let (answers, answered) = AsyncStream.makeStream(of: SendOutcome.self)
        let sessions = SessionServer(server) { session in
            Task {
                for await payload in session.messages { answered.yield(await session.send(payload)) }
                answered.finish()
            }
        }
        let serving = Task { () -> TransportError? in
            do throws(TransportError) {
                try await sessions.serve(listener)
                return nil
            } catch {
                return error
            }
        }
        do throws(TransportError) {
            let supervisor = try Supervisor(listener.endpoint, client)
            let messages = supervisor.messages
            supervisor.connect()
            // A server whose settings are refused answers no client.
            let refusal = Task { () -> TransportError? in
                let error = await serving.value
                if error != nil { await supervisor.close() }
                return error
            }
            let outcome = await supervisor.send(Payload(text: "hello"))
            if outcome == .acknowledged, await answers.first(where: { _ in true })?.isSuccess == true {
                for await payload in messages {
                    #expect(payload.bytes == Array("hello".utf8))
                    break
                }
            }
            await supervisor.close()
            await listener.close()
            await sessions.close()
            return await refusal.value
        } catch {
            await listener.close()
            _ = await serving.value
            return error
        }
    }

    private func expectConfiguration(_ error: TransportError?, _ name: String) {
        guard let error else { return }
        #expect(error.code == .invalidConfiguration, "\(name): \(error)")
    }

    @Test("Each setting of a supervisor is refused, or a message has an outcome", arguments: ["memory", "tcp"])
    func supervisors(scheme: String) async throws {
        for change in Self.supervisorChanges {
            var client = Self.quick
            client.delivery.mode = .session
            change.apply(&client)
            let url = scheme == "memory" ? "memory://extremes" : "\(scheme)://127.0.0.1:0"
            expectConfiguration(try await exchange(client, over: url), change.name)
        }
    }

    @Test("Each setting of a session server is refused, or a message has an outcome")
    func sessionServers() async throws {
        let own: [Change<SessionServer.Configuration>] = Self.changes(
            numbers: [
                ("maximumSessions", \.maximumSessions),
                ("maximumUnidentifiedConnections", \.maximumUnidentifiedConnections),
            ],
            optionalNumbers: [("maximumBuffered", \.maximumBuffered)],
            durations: [("sessionLifetime", \.sessionLifetime), ("helloTimeout", \.helloTimeout)]
        )
        let shared = Self.supervisorChanges.map { change in
            Change<SessionServer.Configuration>(name: change.name) { change.apply(&$0.supervisor) }
        }
        for change in own + shared {
            var server = SessionServer.Configuration()
            change.apply(&server)
            var client = Self.quick
            client.delivery.mode = .session
            // Some limits make the server end the connection of every message.
            client.outbox.maximumAge = .seconds(1)
            expectConfiguration(try await exchange(client, server, over: "memory://extremes"), change.name)
        }
    }

    @Test("Each limit of a broker is refused, or a message with QoS 1 is delivered or counted as dropped")
    func brokers() async throws {
        let changes: [Change<BrokerLimits>] = Self.changes(
            numbers: [
                ("keptSessions", \.keptSessions), ("queuedMessages", \.queuedMessages), ("queuedBytes", \.queuedBytes),
                ("maximumQueuedBytes", \.maximumQueuedBytes), ("retainedMessages", \.retainedMessages),
                ("retainedBytes", \.retainedBytes), ("filterLevels", \.filterLevels),
                ("filterLevelsPerSession", \.filterLevelsPerSession), ("filterNodes", \.filterNodes),
                ("wildFilterNodes", \.wildFilterNodes),
            ],
            durations: [("sessionExpiry", \.sessionExpiry)]
        )
        for change in changes {
            var limits = BrokerLimits()
            change.apply(&limits)
            do throws(TransportError) {
                let broker = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", limits: limits)
                var endpoint = broker.endpoint
                endpoint.options = [
                    .init(name: "qos", value: "1"), .init(name: "subscribe", value: "a"),
                    .init(name: "publish", value: "a"),
                ]
                let connection = try await TransportRegistry.standard.connect(endpoint)
                #expect(await connection.send(Payload(text: "hello")) == .acknowledged, "\(change.name)")
                // The limit of all queues may be smaller than one message.
                if await broker.brokerStatistics()?.dropped == 0 {
                    #expect(try await connection.receive()?.bytes == Array("hello".utf8), "\(change.name)")
                }
                await connection.close()
                await broker.stop()
            } catch {
                // The smallest limits of filters refuse the subscription, and say so.
                if error.code != .forbidden { expectConfiguration(error, change.name) }
            }
        }
    }

    @Test(
        "Each option of a client's URL is refused, or a message has an outcome",
        arguments: schemes
    )
    func clientOptions(scheme: String) async throws {
        let registry = TransportRegistry.standard
        let server = try await EmbeddedServer.start(Self.url(scheme, "client"))
        for option in try registry.transport(named: scheme).clientSettings
        where Self.isQuantity(option) {
            for text in Self.texts {
                var endpoint = server.endpoint
                endpoint.options = try registry.transport(named: scheme).loopback("echo")
                endpoint.options.removeAll { $0.name == option.name }
                endpoint.options.append(.init(name: option.name, value: text))
                await expectEnd(endpoint, "\(option.name)=\(text)")
            }
        }
        await server.stop()
    }

    @Test(
        "Each option of a server's URL is refused, or a message has an outcome",
        arguments: schemes
    )
    func serverOptions(scheme: String) async throws {
        let registry = TransportRegistry.standard
        for option in try registry.transport(named: scheme).serverSettings
        where Self.isQuantity(option) {
            for text in Self.texts {
                do throws(TransportError) {
                    let url = Self.url(scheme, "server")
                    let separator = url.contains("?") ? "&" : "?"
                    let server = try await EmbeddedServer.start("\(url)\(separator)\(option.name)=\(text)")
                    var endpoint = server.endpoint
                    endpoint.options = try registry.transport(named: scheme).loopback("echo")
                    await expectEnd(endpoint, "\(option.name)=\(text) at the server")
                    await server.stop()
                } catch {
                    #expect(error.code == .invalidConfiguration, "\(option.name)=\(text): \(error)")
                }
            }
        }
    }

    private static func url(_ scheme: String, _ name: String) -> String {
        scheme == "memory" ? "memory://extreme-\(name)" : "\(scheme)://127.0.0.1:0"
    }

    /// Whether the values are numbers or durations: `1 to 1024`, `"1ms" to "1000h"`.
    private static func isQuantity(_ option: SettingRow) -> Bool {
        option.allowed.contains(" to ") && option.allowed.first { $0 != "\"" }?.isNumber == true
    }

    /// Connects, and sends and receives a message. Each step may fail, but must end.
    private func expectEnd(_ endpoint: Endpoint, _ name: String) async {
        do throws(TransportError) {
            let connection = try await TransportRegistry.standard.connect(endpoint, timeout: .seconds(10))
            let outcome = await connection.send(Payload(text: "hello"))
            // A datagram that exceeds a limit of the server is lost.
            if outcome.isSuccess, connection.capabilities.isReliable { _ = try await connection.receive() }
            await connection.close()
        } catch {
            #expect(error.code != .cancelled, "\(name): \(error)")
        }
    }

    @Test(
        "An attempt with any time limit ends, in a connection or because the time is over",
        arguments: schemes
    )
    func timeouts(scheme: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(scheme, "timeout"))
        var endpoint = server.endpoint
        endpoint.options = try TransportRegistry.standard.transport(named: scheme).loopback("echo")
        for timeout in Self.durations {
            do throws(TransportError) {
                // On loopback, an attempt can be over before the time is looked at.
                let connection = try await TransportRegistry.standard.connect(endpoint, timeout: timeout)
                await connection.close()
            } catch {
                #expect(error.code == .timedOut && timeout < .seconds(1), "\(timeout): \(error)")
            }
        }
        await server.stop()
    }

    @Test("Codecs accept all limits, and refuse what exceeds them", arguments: WireFormat.allCases)
    func codecs(format: WireFormat) {
        let changes: [Change<CodecLimits>] = Self.changes(numbers: [
            ("maximumDepth", \.maximumDepth), ("maximumLength", \.maximumLength), ("maximumCount", \.maximumCount),
            ("maximumElements", \.maximumElements), ("maximumKeyLength", \.maximumKeyLength),
        ])
        var message = ChatMessage(id: "1", conversation: "c", sender: "s", sentAtMs: 1, text: "hello")
        message.mentions = ["a"]
        message.attributes = ["k": "v"]
        for change in changes {
            var limits = CodecLimits()
            change.apply(&limits)
            let codec = format.codec(limits: limits)
            do throws(CodecError) {
                #expect(try codec.decode(ChatMessage.self, from: try codec.encode(message)) == message)
            } catch {
                #expect(throws: CodecError.self, "\(change.name)") {
                    try codec.decode(ChatMessage.self, from: format.codec().encode(message))
                }
            }
        }
    }
}
