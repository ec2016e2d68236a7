@testable import TransportAPI

/// A supervisor's state machine with a clock and a record of its actions.
struct MachineHarness {
    var machine: SupervisorStateMachine
    var random = RandomSource.seeded(1)
    var now = Instant.zero
    var actions: [SupervisorAction] = []
    var submitted: UInt64 = 0

    init(_ configuration: SupervisorConfiguration, endpoints: Int = 1) {
        let endpoints = (0..<endpoints).map { Endpoint(scheme: "memory", host: "server\($0)") }
        machine = SupervisorStateMachine(configuration, endpoints: endpoints, using: &random)
    }

    /// Handles the event and returns the new actions.
    @discardableResult
    mutating func tell(_ event: SupervisorStateMachine.Event) -> [SupervisorAction] {
        var new: [SupervisorAction] = []
        machine.handle(event, at: now, using: &random, &new)
        actions += new
        return new
    }

    /// Handles the event and returns the new actions.
    @discardableResult
    mutating func tell(_ event: ConversationEvent) -> [SupervisorAction] {
        var new: [SupervisorAction] = []
        machine.handle(event, at: now, using: &random, &new)
        actions += new
        return new
    }

    @discardableResult
    mutating func submit(_ size: Int = 1) -> MessageID {
        submitted += 1
        let id = MessageID(submitted)
        tell(.submit(id, Payload([UInt8](repeating: UInt8(truncatingIfNeeded: submitted), count: size))))
        return id
    }

    mutating func wait(_ duration: Duration) { now = now.advanced(by: duration) }

    /// Waits, and handles the deadlines until then.
    mutating func pass(_ duration: Duration, _ signs: SignsOfLife = SignsOfLife()) {
        let end = now.advanced(by: duration)
        while let deadline = machine.deadline, deadline <= end {
            now = max(now, deadline)
            tell(.deadlineReached(signs))
        }
        now = end
    }

    /// Opens the next connection of a session, whose server has received `received` messages.
    mutating func open(_ capabilities: Capabilities = .session, incarnation: UInt64 = 7, received: UInt64 = 0) {
        tell(.connect)
        tell(.connected(machine.connection, capabilities))
        let welcome = SessionFrame.welcome(incarnation: incarnation, received: received)
        tell(.received(machine.connection, welcome.payload))
    }

    /// Every outcome that was reported for the message.
    func outcomes(_ id: MessageID) -> [SendOutcome] {
        actions.compactMap { if case .finish(id, let outcome) = $0 { outcome } else { nil } }
    }

    /// For each attempt so far, whether it requested fresh credentials.
    var attempts: [Bool] {
        actions.compactMap { if case .connect(_, _, _, let refreshing) = $0 { refreshing } else { nil } }
    }

    /// Whether the machine has abandoned this connection because it was silent.
    func hasAbandoned(_ connection: Int) -> Bool {
        actions.contains { if case .abandon(connection) = $0 { true } else { false } }
    }
}

extension Capabilities {
    static let session = Capabilities(maximumMessageSize: 1 << 20)
    static let datagrams = Capabilities(isReliable: false, isOrdered: false, maximumMessageSize: 1200)
    static let broker = Capabilities(acknowledgesMessages: true, maximumMessageSize: 1 << 20)
}

extension SupervisorConfiguration {
    /// Session mode, without a pause before the next attempt.
    static var session: SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.backoff = .immediate
        return configuration
    }
}

let lost = CloseReason(.network)
let gone = TransportError(.connectionLost, .open, "gone")
