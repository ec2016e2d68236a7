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

    private mutating func open() -> [SupervisorAction] {
        _ = now(.connect)
        return now(.connected(machine.link, Capabilities(maximumMessageSize: 1000)))
    }

    private func trial(_ actions: [SupervisorAction]) -> (number: Int, idle: Duration)? {
        for action in actions {
            if case .beginTrial(let number, _, let idle, _, _) = action { return (number, idle) }
        }
        return nil
    }

    @Test("tries longer intervals on a spare connection, and the link takes what proved good")
    mutating func spare() throws {
        let first = try #require(trial(open()))
        #expect(first.idle == .seconds(60))
        #expect(machine.keepalive?.interval == .seconds(30))
        let second = try #require(trial(after(.seconds(60), .trial(first.number, survived: true))))
        #expect(machine.keepalive?.interval == .seconds(60))
        #expect(second.idle == .seconds(120))
        // What the trial before says once more changes nothing.
        _ = now(.trial(first.number, survived: false))
        #expect(machine.keepalive?.interval == .seconds(60))
    }

    @Test("a trial that could not tell is made again, but not at once")
    mutating func noAnswer() throws {
        let first = try #require(trial(open()))
        #expect(trial(now(.trial(first.number, survived: nil))) == nil)
        let due = try #require(machine.deadline)
        #expect(time.duration(to: due) == .seconds(30), "the link's own probe comes before")
        #expect(trial(after(.seconds(61), .tick(bytesReceived: 0))) != nil)
    }

    @Test("a link that is lost takes its trial with it, and falls back to the safe interval")
    mutating func lost() throws {
        let first = try #require(trial(open()))
        _ = now(.trial(first.number, survived: true))
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
        let first = try #require(trial(open()))
        _ = now(.trial(first.number, survived: true))
        _ = now(.path(NetworkPath(isUsable: true, network: "home")))
        #expect(machine.keepalive?.interval == .seconds(30))
        _ = now(.path(NetworkPath(isUsable: true, network: "")))
        #expect(machine.keepalive?.interval == .seconds(60))
    }

    @Test("without a spare connection the link itself is idle for longer, and its answer counts")
    mutating func onTheLink() {
        machine = Self.machine(usesSpare: false, &random)
        #expect(trial(open()) == nil)
        #expect(machine.keepalive?.interval == .seconds(60))
        #expect(after(.seconds(60), .tick(bytesReceived: 0)).contains { if case .ping = $0 { true } else { false } })
        _ = now(.pong(machine.link, .milliseconds(20)))
        #expect(machine.keepalive?.interval == .seconds(120))
    }

    @Test("an answer after an interval with traffic in it proves nothing")
    mutating func traffic() {
        machine = Self.machine(usesSpare: false, &random)
        _ = open()
        _ = after(.seconds(50), .submit(MessageID(1), Payload([1])))
        _ = after(.seconds(10), .tick(bytesReceived: 0))
        _ = now(.pong(machine.link, .milliseconds(20)))
        #expect(machine.keepalive?.interval == .seconds(60))
    }
}
