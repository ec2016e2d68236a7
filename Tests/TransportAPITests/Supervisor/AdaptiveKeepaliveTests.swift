import Testing

@testable import TransportAPI

/// The search for a longer keepalive interval, as the supervisor's machine leads it.
@Suite("Adaptive keepalive")
struct AdaptiveKeepaliveTests {
    private var random = RandomSource.seeded(1)
    private var machine: SupervisorMachine
    private var time = Instant.zero

    init() {
        machine = Self.machine(usesSpare: true, &random)
    }

    private static func machine(usesSpare: Bool, _ random: inout RandomSource) -> SupervisorMachine {
        var configuration = SupervisorConfiguration()
        configuration.keepalive.adaptive = AdaptiveKeepaliveConfiguration()
        configuration.keepalive.adaptive?.usesSpareConnection = usesSpare
        let endpoint = Endpoint(scheme: "tcp", host: "localhost")
        return SupervisorMachine(configuration, endpoints: [endpoint], using: &random)
    }

    private mutating func now(_ event: SupervisorMachine.Event) -> [SupervisorAction] { after(.zero, event) }

    private mutating func after(_ wait: Duration, _ event: SupervisorMachine.Event) -> [SupervisorAction] {
        time = time.advanced(by: wait)
        var actions: [SupervisorAction] = []
        machine.handle(event, at: time, using: &random, &actions)
        return actions
    }

    private mutating func open(_ capabilities: Capabilities = Capabilities(maximumMessageSize: 1000)) {
        _ = now(.connect)
        _ = now(.connected(machine.link, capabilities))
    }

    /// Opens a link; the actions once it is stable.
    private mutating func settle() -> [SupervisorAction] {
        open()
        return after(.seconds(10), .tick(bytesReceived: 0))
    }

    private func trial(_ actions: [SupervisorAction]) -> (number: Int, idle: Duration)? {
        for action in actions {
            if case .beginTrial(let number, _, let idle, _, _) = action { return (number, idle) }
        }
        return nil
    }

    @Test("tries longer intervals on a spare connection, and the link takes what proved good")
    mutating func spare() throws {
        let first = try #require(trial(settle()))
        #expect(first.idle == .seconds(60))
        #expect(machine.keepalive?.interval == .seconds(30))
        let second = try #require(trial(after(.seconds(60), .trial(first.number, .survived))))
        #expect(machine.keepalive?.interval == .seconds(60))
        #expect(second.idle == .seconds(120))
        // What the trial before says once more changes nothing.
        _ = now(.trial(first.number, .died(.seconds(60))))
        #expect(machine.keepalive?.interval == .seconds(60))
    }

    @Test("a trial that could not tell is made again, but not at once")
    mutating func noAnswer() throws {
        let first = try #require(trial(settle()))
        #expect(trial(now(.trial(first.number, .unclear))) == nil)
        let deadline = machine.deadline
        let due = try #require(deadline)
        #expect(time.duration(to: due) == .seconds(20), "the link's own probe comes before")
        #expect(trial(after(.seconds(61), .tick(bytesReceived: 0))) != nil)
    }

    @Test("a link that is lost takes its trial with it, and falls back to the safe interval")
    mutating func lost() throws {
        let first = try #require(trial(settle()))
        _ = now(.trial(first.number, .survived))
        #expect(machine.keepalive?.interval == .seconds(60))
        _ = after(.seconds(60), .tick(bytesReceived: 0))
        let actions = after(.seconds(10), .tick(bytesReceived: 0))
        #expect(actions.contains { if case .endTrial = $0 { true } else { false } })
        _ = after(.seconds(30), .tick(bytesReceived: 0))
        _ = now(.connected(machine.link, Capabilities(maximumMessageSize: 1000)))
        #expect(machine.keepalive?.interval == .seconds(30))
    }

    @Test("remembers each network apart")
    mutating func networks() throws {
        let first = try #require(trial(settle()))
        _ = now(.trial(first.number, .survived))
        _ = now(.path(NetworkPath(isUsable: true, network: "home")))
        #expect(machine.keepalive?.interval == .seconds(30))
        _ = now(.path(NetworkPath(isUsable: true, network: "")))
        #expect(machine.keepalive?.interval == .seconds(60))
    }

    @Test("without a spare connection the link itself is idle for longer, and its answer counts")
    mutating func onTheLink() {
        machine = Self.machine(usesSpare: false, &random)
        #expect(trial(settle()) == nil)
        #expect(machine.keepalive?.interval == .seconds(60))
        #expect(after(.seconds(60), .tick(bytesReceived: 0)).contains { if case .ping = $0 { true } else { false } })
        _ = now(.pong(machine.link, .milliseconds(20)))
        #expect(machine.keepalive?.interval == .seconds(120))
    }

    @Test("an answer after an interval with traffic in it proves nothing")
    mutating func traffic() {
        machine = Self.machine(usesSpare: false, &random)
        open()
        _ = after(.seconds(50), .submit(MessageID(1), Payload([1])))
        _ = after(.seconds(10), .tick(bytesReceived: 0))
        _ = now(.pong(machine.link, .milliseconds(20)))
        #expect(machine.keepalive?.interval == .seconds(60))
    }

    @Test("without a network nothing is due, and what a change of networks kills says nothing of the new one")
    mutating func networkLost() throws {
        let first = try #require(trial(settle()))
        _ = now(.trial(first.number, .survived))
        _ = after(.seconds(1), .path(NetworkPath(isUsable: false)))
        #expect(machine.deadline == nil)
        _ = after(.seconds(300), .path(NetworkPath(isUsable: true)))
        _ = now(.tick(bytesReceived: 0))
        _ = after(.seconds(10), .tick(bytesReceived: 0))
        #expect(machine.keepalive == nil, "the old connection did not survive")
        var intervals = machine.adaptive?.intervals
        #expect(intervals?.current(on: "") == .seconds(60))
    }

    @Test("a link that is reset when it is asked after its interval was idle for too long")
    mutating func reset() throws {
        let first = try #require(trial(settle()))
        _ = now(.trial(first.number, .survived))
        _ = after(.seconds(60), .tick(bytesReceived: 0))
        let error = TransportError(.connectionReset, .open, "reset")
        _ = after(.milliseconds(20), .ended(machine.link, CloseReason(error)))
        var intervals = machine.adaptive?.intervals
        #expect(intervals?.current(on: "") == .seconds(30))
    }

    @Test("a link that breaks in the middle of a conversation says nothing about idle ones")
    mutating func broken() throws {
        let first = try #require(trial(settle()))
        _ = now(.trial(first.number, .survived))
        _ = after(.seconds(59), .submit(MessageID(1), Payload([1])))
        let error = TransportError(.connectionReset, .open, "reset")
        _ = after(.seconds(2), .ended(machine.link, CloseReason(error)))
        var intervals = machine.adaptive?.intervals
        #expect(intervals?.current(on: "") == .seconds(60))
    }

    @Test("is left alone where the protocol has no ping")
    mutating func noPing() {
        open(Capabilities(hasNativePing: false, maximumMessageSize: 1000))
        #expect(trial(after(.seconds(600), .tick(bytesReceived: 0))) == nil)
        #expect(machine.deadline == nil || machine.deadline ?? .zero > time)
    }

    @Test("tries less and less often when nothing can be seen")
    mutating func pauses() throws {
        var number = try #require(trial(settle())).number
        for pause in [60, 120, 240] {
            #expect(trial(now(.trial(number, .unclear))) == nil)
            _ = now(.pong(machine.link, .zero))
            #expect(trial(after(.seconds(pause - 1), .path(NetworkPath(isUsable: true)))) == nil)
            number = try #require(trial(after(.seconds(1), .tick(bytesReceived: 0)))).number
        }
    }
}
