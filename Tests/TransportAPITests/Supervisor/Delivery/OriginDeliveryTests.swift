import Testing

@testable import TransportAPI

/// Tests messages between two clients of a broker. The broker sends the acknowledgements.
@Suite("Delivery through a broker")
struct OriginDeliveryTests {
    private var random = RandomSource.seeded(1)
    private var delivery: Delivery
    private var actions: [SupervisorAction] = []
    private let broker = Capabilities(acknowledgesMessages: true, maximumMessageSize: 1000)

    init() {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        delivery = Delivery(configuration, identity: SessionID(using: &random))
    }

    /// Returns the numbers of the messages that were handed to `connection` since the last call, and the outcomes since
    /// then.
    private mutating func take(_ connection: Int) -> (sent: [UInt64], ended: [MessageID: SendOutcome]) {
        defer { actions = [] }
        var (sent, ended): ([UInt64], [MessageID: SendOutcome]) = ([], [:])
        for action in actions {
            switch action {
            case .transmit(connection, _, let payload):
                if case .origin(_, let number, _, _)? = try? SessionFrame(payload) { sent.append(number) }
            case .finish(let id, let outcome): ended[id] = outcome
            default: break
            }
        }
        return (sent, ended)
    }

    private mutating func settle(_ number: UInt64, _ outcome: SendOutcome) {
        delivery.settled(MessageID(number), on: 1, outcome, at: .zero, &actions)
    }

    @Test(
        "Unacknowledged messages are sent in order over the next connection, whatever the error of the first one",
        arguments: [
            .connectionLost, .closedByPeer, .keepaliveTimeout, .acknowledgementTimeout, .protocolViolation,
            // The broker has sent a message that exceeds this side's limit.
            .messageTooLarge,
        ] as [TransportError.Code]
    )
    mutating func resends(code: TransportError.Code) {
        delivery.attach(1, broker)
        for number in 1...4 as ClosedRange<UInt64> {
            delivery.submit(MessageID(number), Payload([UInt8(number)]), at: .zero, &actions)
        }
        #expect(take(1).sent == [1, 2, 3, 4])
        settle(2, .acknowledged)
        #expect(take(1).ended == [MessageID(2): .acknowledged])

        let error = TransportError(code, .open, "the connection has ended")
        settle(1, .unknown(error))
        delivery.detach(at: .zero, &actions)
        // The next connection opens before the last one has reported all its outcomes.
        delivery.attach(2, broker)
        delivery.flush(at: .zero, &actions)
        settle(4, .unknown(error))
        #expect(take(2).sent == [])
        settle(3, .unknown(error))
        let next = take(2)
        #expect(next.sent == [1, 3, 4])
        #expect(next.ended.isEmpty)
    }
}
