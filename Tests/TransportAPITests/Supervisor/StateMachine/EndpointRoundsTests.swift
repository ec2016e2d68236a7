import Testing

@testable import TransportAPI

@Suite("A supervisor with several endpoints")
struct EndpointRoundsTests {
    private var random = RandomSource.seeded(3)
    private var machine: SupervisorStateMachine

    init() {
        var random = RandomSource.seeded(3)
        let endpoints = ["a", "b", "c"].map { Endpoint(scheme: "tcp", host: $0) }
        machine = SupervisorStateMachine(SupervisorConfiguration(), endpoints: endpoints, using: &random)
    }

    /// The delays of the pauses that `event` leads to.
    private mutating func handle(_ event: SupervisorStateMachine.Event) -> [Duration] {
        var actions: [SupervisorAction] = []
        machine.handle(event, at: .zero, using: &random, &actions)
        return actions.compactMap { if case .state(.waiting(let delay, _)) = $0 { delay } else { nil } }
    }

    private mutating func fail(_ code: TransportError.Code) -> [Duration] {
        defer { _ = handle(.deadlineReached(bytesReceived: 0)) }
        return handle(.failed(machine.connection, TransportError(code, .handshake, "no")))
    }

    @Test("tries all of them before the first pause")
    mutating func round() {
        _ = handle(.connect)
        #expect(fail(.refused) == [.zero])
        #expect(fail(.refused) == [.zero])
        #expect(handle(.failed(machine.connection, TransportError(.refused, .connect, "no")))[0] > .zero)
        #expect(machine.endpoint == 0)
    }

    @Test("one that retrying can't mend is left out, and does not end the round")
    mutating func hopeless() {
        _ = handle(.connect)
        #expect(fail(.notFound) == [.zero])
        #expect(fail(.refused) == [.zero])
        #expect(handle(.failed(machine.connection, TransportError(.refused, .connect, "no")))[0] > .zero)
        #expect(machine.endpoint == 1)
    }

    @Test("gives up when retrying can mend none of them")
    mutating func allHopeless() {
        _ = handle(.connect)
        #expect(fail(.notFound) == [.zero])
        #expect(fail(.notFound) == [.zero])
        #expect(fail(.notFound) == [])
        #expect(machine.phase == .closed)
    }
}
