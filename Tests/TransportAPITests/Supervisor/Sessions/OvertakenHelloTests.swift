import Testing

@testable import TransportAPI

@Suite("A hello that another hello overtook")
struct OvertakenHelloTests {
    private let capabilities = Capabilities(maximumMessageSize: 1000)

    @Test("An overtaken hello does not take the session from the newer connection")
    func overtaken() {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        var session = ServerSessionStateMachine(configuration, incarnation: 5, lifetime: .seconds(60), at: .zero)
        var actions: [SupervisorAction] = []
        let second = ClientHello(incarnation: 0, received: 0, attempt: 2)
        session.handle(.attach(1, capabilities, second), at: .zero, &actions)
        #expect(session.connection == 1)

        actions = []
        let first = ClientHello(incarnation: 0, received: 0, attempt: 1)
        session.handle(.attach(2, capabilities, first), at: .zero, &actions)
        #expect(session.connection == 1)
        #expect(actions.contains { if case .abandon(2) = $0 { true } else { false } })

        actions = []
        session.handle(.attach(3, capabilities, second), at: .zero, &actions)
        #expect(
            session.connection == 3,
            "of two equal attempts the later connection wins, because some peers do not count attempts"
        )
    }
}
