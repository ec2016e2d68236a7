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

    /// Returns the delays of the pauses that `event` starts.
    private mutating func handle(_ event: SupervisorStateMachine.Event) -> [Duration] {
        var actions: [SupervisorAction] = []
        machine.handle(event, at: .zero, using: &random, &actions)
        return actions.compactMap { if case .state(.waiting(let delay, _)) = $0 { delay } else { nil } }
    }

    private mutating func take(_ event: ConversationEvent) -> [Duration] {
        var actions: [SupervisorAction] = []
        machine.handle(event, at: .zero, using: &random, &actions)
        return actions.compactMap { if case .state(.waiting(let delay, _)) = $0 { delay } else { nil } }
    }

    private mutating func fail(_ code: TransportError.Code) -> [Duration] {
        defer { _ = take(.deadlineReached(SignsOfLife(bytesReceived: 0))) }
        return handle(.failed(machine.connection, TransportError(code, .handshake, "no")))
    }

    @Test("A supervisor tries all endpoints before the first pause")
    mutating func round() {
        _ = handle(.connect)
        #expect(fail(.refused) == [.zero])
        #expect(fail(.refused) == [.zero])
        #expect(handle(.failed(machine.connection, TransportError(.refused, .connect, "no")))[0] > .zero)
        #expect(machine.endpoint == 0)
    }

    @Test("An endpoint with a permanent error is skipped and does not end the round")
    mutating func permanentError() {
        _ = handle(.connect)
        #expect(fail(.notFound) == [.zero])
        #expect(fail(.refused) == [.zero])
        #expect(handle(.failed(machine.connection, TransportError(.refused, .connect, "no")))[0] > .zero)
        #expect(machine.endpoint == 1)
    }

    /// Opens the connection of the current attempt, which its peer then refuses.
    private mutating func refuseLate(_ code: TransportError.Code) -> [Duration] {
        _ = handle(.connected(machine.connection, Capabilities(maximumMessageSize: 100)))
        return take(.ended(machine.connection, CloseReason(TransportError(code, .handshake, "no"))))
    }

    @Test("A late refusal that may not occur again is followed by the next endpoint, after a pause")
    mutating func refusedLateForATime() {
        _ = handle(.connect)
        for endpoint in [0, 1, 2, 0] {
            #expect(machine.endpoint == endpoint)
            #expect(refuseLate(.serverUnavailable).count == 1)
            machine.phase = .waiting(.zero)
            _ = take(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        }
    }

    @Test(
        "An endpoint that refuses a connection for good after it has opened is not tried again",
        arguments: [TransportError.Code.forbidden, .protocolViolation]
    )
    mutating func forbiddenLate(code: TransportError.Code) {
        _ = handle(.connect)
        for endpoint in 0..<2 {
            #expect(machine.endpoint == endpoint)
            #expect(refuseLate(code).count == 1)
            machine.phase = .waiting(.zero)
            _ = take(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        }
        #expect(machine.endpoint == 2)
        #expect(refuseLate(code).isEmpty)
        #expect(machine.isOver)
    }

    @Test("A supervisor gives up when all endpoints have permanent errors")
    mutating func onlyPermanentErrors() {
        _ = handle(.connect)
        #expect(fail(.notFound) == [.zero])
        #expect(fail(.notFound) == [.zero])
        #expect(fail(.notFound) == [])
        #expect(machine.isOver)
    }
}
