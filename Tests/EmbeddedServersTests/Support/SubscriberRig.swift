import EmbeddedServers
import SocketIO
import Testing
import TransportAPI
import Transports

/// A broker that can be stopped and started, a proxy in front of it, and a client that reconnects.
final class SubscriberRig {
    let supervisor: Supervisor
    let client: MQTTClient
    let proxy: FaultProxy
    var server: EmbeddedServer
    private let url: String
    private let port: ReservedPort
    private var states: Subscription<SupervisorState>.Iterator
    private var publisher: (any Connection)?

    init(_ scheme: String = "mqtt", _ options: String = "", qos: Int = 1, serving: String = "") async throws {
        port = try ReservedPort(isDatagram: false)
        url = "\(scheme)://\(port.address)/"
        server = try await EmbeddedServer.startBroker(url + serving)
        proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let file = """
            {
              "endpoints": ["\(scheme)://127.0.0.1:\(proxied)/?qos=\(qos)&\(options)"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        states = supervisor.states.makeAsyncIterator()
        client = MQTTClient(supervisor)
    }

    /// Waits for the next state that satisfies the condition.
    @discardableResult
    func wait(for condition: (SupervisorState) -> Bool) async -> SupervisorState? {
        while let state = await states.next() { if condition(state) { return state } }
        return nil
    }

    func connect() async {
        supervisor.connect()
        await wait(for: \.isOpen)
    }

    /// Cuts the connection and returns when the next one is open.
    func cut() async {
        await proxy.cut(.reset)
        await wait(for: \.isOpen)
    }

    /// Replaces the broker by a new one without any state.
    func restart(_ limits: BrokerLimits = BrokerLimits()) async throws {
        await publisher?.close()
        publisher = nil
        await server.stop()
        server = try await EmbeddedServer.startBroker(url, limits: limits)
        await wait(for: \.isOpen)
    }

    func suspend() async {
        supervisor.suspend()
        await wait { $0 == .suspended }
    }

    func resume() async {
        supervisor.resume()
        await wait(for: \.isOpen)
    }

    /// Runs work on the loop of the supervisor. Calls are made there in the order in which they begin.
    func begin<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) -> Task<Value, any Error> {
        Task(executorPreference: EventLoop.shared, operation: work)
    }

    func publish(_ text: String, to topic: String) async throws {
        if publisher == nil { publisher = try await TransportRegistry.standard.connect("\(url)?qos=1") }
        #expect(await publisher?.send(Payload(text: text, topic: topic)) == .acknowledged)
    }

    func stop() async {
        await publisher?.close()
        await supervisor.close()
        await proxy.stop()
        await server.stop()
    }
}
