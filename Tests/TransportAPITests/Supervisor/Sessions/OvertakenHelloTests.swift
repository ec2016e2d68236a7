import Testing

@testable import TransportAPI

@Suite("A hello that was overtaken on its way")
struct OvertakenHelloTests {
    private let capabilities = Capabilities(maximumMessageSize: 1000)

    @Test("does not take the session from the connection that came after it")
    func overtaken() {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        var session = ServerSessionStateMachine(configuration, incarnation: 5, lifetime: .seconds(60), at: .zero)
        var actions: [SupervisorAction] = []
        let second = ClientHello(incarnation: 0, received: 0, attempt: 2)
        session.attach(1, capabilities, hello: second, at: .zero, &actions)
        #expect(session.connection == 1)

        actions = []
        let first = ClientHello(incarnation: 0, received: 0, attempt: 1)
        session.attach(2, capabilities, hello: first, at: .zero, &actions)
        #expect(session.connection == 1)
        #expect(actions.contains { if case .abandon(2) = $0 { true } else { false } })

        actions = []
        session.attach(3, capabilities, hello: second, at: .zero, &actions)
        #expect(session.connection == 3, "of two that are equal the later one wins, for peers that do not count")
    }
}
