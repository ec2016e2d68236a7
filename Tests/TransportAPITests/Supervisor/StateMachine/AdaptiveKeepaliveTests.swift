import Testing

@testable import TransportAPI

/// Tests how the state machine of a supervisor searches for a longer keepalive interval.
@Suite("Adaptive keepalive")
struct AdaptiveKeepaliveTests {
    private var random = RandomSource.seeded(1)
    private var machine: SupervisorStateMachine
    private var time = Instant.zero

    init() {
        var configuration = SupervisorConfiguration()
        configuration.keepalive.adaptive = AdaptiveKeepaliveConfiguration()
        let endpoint = Endpoint(scheme: "tcp", host: "localhost")
        machine = SupervisorStateMachine(configuration, endpoints: [endpoint], using: &random)
    }

    private mutating func now(_ event: SupervisorStateMachine.Event) { after(.zero, event) }

    private mutating func now(_ event: ConversationEvent) { _ = after(.zero, event) }

    private mutating func after(_ wait: Duration, _ event: SupervisorStateMachine.Event) {
        var actions = pass(wait)
        machine.handle(event, at: time, using: &random, &actions)
    }

    private mutating func after(_ wait: Duration, _ event: ConversationEvent) -> [SupervisorAction] {
        var actions = pass(wait)
        machine.handle(event, at: time, using: &random, &actions)
        return actions
    }

    /// Waits, and handles the deadlines before the end. A machine that misses its checks takes the process for a stopped one.
    private mutating func pass(_ wait: Duration) -> [SupervisorAction] {
        let end = time.advanced(by: wait)
        var actions: [SupervisorAction] = []
        while let deadline = machine.deadline, deadline > time, deadline < end {
            time = deadline
            machine.handle(.deadlineReached(SignsOfLife()), at: time, using: &random, &actions)
        }
        time = end
        return actions
    }

    private mutating func open(_ capabilities: Capabilities = Capabilities(maximumMessageSize: 1000)) {
        now(.connect)
        now(.connected(machine.connection, capabilities))
    }

    /// Sends a ping after the connection was idle for `interval`, and receives the answer.
    private mutating func survive(_ interval: Duration) {
        let actions = after(interval, .deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(actions.contains { if case .ping = $0 { true } else { false } })
        now(.pong(machine.connection, .milliseconds(20)))
    }

    private func good(on network: String = "") -> Duration? {
        var intervals = machine.adaptive?.intervals
        return intervals?.current(on: network)
    }

    @Test("The interval grows each time that an idle connection answers")
    mutating func grows() {
        open()
        #expect(machine.link.keepalive?.interval == .seconds(60))
        survive(.seconds(60))
        #expect(machine.link.keepalive?.interval == .seconds(120))
        survive(.seconds(120))
        #expect(machine.link.keepalive?.interval == .seconds(240))
    }

    @Test("A connection without pings has no adaptive keepalive")
    mutating func noPing() {
        open(Capabilities(hasNativePing: false, maximumMessageSize: 1000))
        #expect(machine.link.keepalive == nil)
        #expect(machine.deadline == nil)
    }

    @Test("An answer after an interval with traffic does not count as a trial")
    mutating func traffic() {
        open()
        _ = after(.seconds(50), .submit(MessageID(1), Payload([1])))
        _ = after(.seconds(10), .deadlineReached(SignsOfLife(bytesReceived: 0)))
        now(.pong(machine.connection, .milliseconds(20)))
        #expect(machine.link.keepalive?.interval == .seconds(60))
    }

    @Test("After a silent connection, the next one starts with the safe interval")
    mutating func silent() {
        open()
        _ = after(.seconds(60), .deadlineReached(SignsOfLife(bytesReceived: 0)))
        _ = after(.seconds(10), .deadlineReached(SignsOfLife(bytesReceived: 0)))
        _ = after(.seconds(30), .deadlineReached(SignsOfLife(bytesReceived: 0)))
        open()
        #expect(machine.link.keepalive?.interval == .seconds(30))
        survive(.seconds(30))
        #expect(machine.link.keepalive?.interval == .seconds(60), "a single failure may be chance")
    }

    @Test("Each network has its own interval")
    mutating func networks() {
        open()
        survive(.seconds(60))
        now(.path(NetworkPath(isUsable: true, network: "home")))
        #expect(machine.link.keepalive?.interval == .seconds(60))
        now(.path(NetworkPath(isUsable: true, network: "")))
        #expect(machine.link.keepalive?.interval == .seconds(120))
    }

    @Test("Nothing is due without a network, and a connection that dies with its network is not a failed trial")
    mutating func networkLost() {
        open()
        survive(.seconds(60))
        after(.seconds(1), .path(NetworkPath(isUsable: false)))
        #expect(machine.deadline == nil)
        after(.seconds(300), .path(NetworkPath(isUsable: true)))
        now(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        _ = after(.seconds(10), .deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(machine.link.keepalive == nil, "the old connection is dead")
        #expect(good() == .seconds(60))
    }

    @Test("A reset that answers the ping after an idle interval counts as a failed trial")
    mutating func reset() {
        open()
        survive(.seconds(60))
        let error = TransportError(.connectionReset, .open, "reset")
        for _ in 0..<2 {
            let interval = machine.link.keepalive?.interval ?? .zero
            _ = after(interval, .deadlineReached(SignsOfLife(bytesReceived: 0)))
            _ = after(.milliseconds(20), .ended(machine.connection, CloseReason(error)))
            _ = after(.seconds(30), .deadlineReached(SignsOfLife(bytesReceived: 0)))
            now(.connected(machine.connection, Capabilities(maximumMessageSize: 1000)))
        }
        #expect(good() == .seconds(30), "the second connection was reset at an interval that was known to be good")
    }

    @Test("A connection that breaks during traffic does not change the interval")
    mutating func broken() {
        open()
        survive(.seconds(60))
        _ = after(.seconds(119), .submit(MessageID(1), Payload([1])))
        let error = TransportError(.connectionReset, .open, "reset")
        _ = after(.seconds(2), .ended(machine.connection, CloseReason(error)))
        #expect(good() == .seconds(60))
    }
}
