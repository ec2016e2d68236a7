import Testing

@testable import TransportAPI

/// Tests what a conversation acknowledges of the messages that it receives.
@Suite("Incoming messages")
struct IncomingMessagesTests {
    private var incoming = IncomingMessages(earlyLimit: 4096, isStored: false)
    private var actions: [SupervisorAction] = []
    private var random = RandomSource.seeded(1)
    private let ann = SessionID(high: 1, low: 2)

    private func connection(_ style: Delivery.Style, isReliable: Bool = true) -> AttachedConnection {
        var connection = AttachedConnection()
        let capabilities = Capabilities(isReliable: isReliable, isOrdered: isReliable, maximumMessageSize: 1200)
        connection.open(1, style, capabilities, peerLimit: .max)
        return connection
    }

    /// Returns what the actions since the last call do, one word each.
    private mutating func take() -> [String] {
        defer { actions = [] }
        return actions.map { action in
            switch action {
            case .deliver(let payload): "deliver \(payload.bytes)"
            case .deliverUnprocessed(let key, let payload, _, _): "give \(key) \(payload.bytes)"
            case .confirm(_, let count): "confirm \(count)"
            case .note(.duplicate): "duplicate"
            case .transmit(_, _, let payload):
                if case .acknowledge(let number)? = try? SessionFrame(payload) { "acknowledge \(number)" } else { "?" }
            default: "?"
            }
        }
    }

    private mutating func receive(_ number: UInt64, over attached: AttachedConnection) throws {
        try incoming.take(
            number,
            Payload([UInt8(truncatingIfNeeded: number)]),
            isRepeated: false,
            over: attached,
            at: .zero,
            &actions
        )
    }

    private mutating func arrive(_ number: UInt64, over broker: AttachedConnection) {
        let payload = Payload([UInt8(number)])
        incoming.giveUnlessRepeated(
            ann,
            number,
            payload,
            isRepeated: false,
            over: broker,
            at: .zero,
            using: &random,
            &actions
        )
    }

    @Test("Without room, a reliable connection acknowledges nothing, and once there is room, everything")
    mutating func room() throws {
        let session = connection(.session)
        incoming.taking(false, over: session, &actions)
        for number in 1...2 as ClosedRange<UInt64> { try receive(number, over: session) }
        #expect(take() == ["deliver [1]", "deliver [2]"])
        incoming.taking(true, over: session, &actions)
        #expect(take() == ["acknowledge 2"])
        incoming.taking(false, over: session, &actions)
        incoming.taking(true, over: session, &actions)
        #expect(take() == [])
    }

    @Test("Without room, a message over a connection that loses messages is dropped, and asked for later")
    mutating func drops() throws {
        let datagrams = connection(.session, isReliable: false)
        incoming.taking(false, over: datagrams, &actions)
        try receive(1, over: datagrams)
        #expect(take() == [])
        incoming.taking(true, over: datagrams, &actions)
        #expect(take() == ["acknowledge 0"])
        try receive(1, over: datagrams)
        #expect(take() == ["deliver [1]", "acknowledge 1"])
    }

    @Test("Nothing is acknowledged without a connection")
    mutating func detached() throws {
        incoming.acknowledgeAfterProcessing()
        var session = connection(.session)
        try receive(1, over: session)
        #expect(take() == ["give 1 [1]"])
        session.close()
        incoming.ended(session)
        incoming.processed(1, isAbandoned: false, over: session, &actions)
        #expect(take() == [])
        #expect(incoming.tellReceived() == 1)
    }

    @Test("A peer that sends more than the window allows without an acknowledgement breaks the rules")
    mutating func window() throws {
        incoming.acknowledgeAfterProcessing()
        let session = connection(.session)
        for number in 1...SessionReceiver.window {
            try incoming.take(number, Payload([]), isRepeated: false, over: session, at: .zero, &actions)
        }
        let next = SessionReceiver.window + 1
        #expect(throws: TransportError.self) {
            try incoming.take(next, Payload([]), isRepeated: false, over: session, at: .zero, &actions)
        }
        incoming.processed(1, isAbandoned: false, over: session, &actions)
        try incoming.take(next, Payload([]), isRepeated: false, over: session, at: .zero, &actions)
        #expect(incoming.unprocessed?.count == Int(SessionReceiver.window))
    }

    @Test("Numbers that the peer leaves out do not count towards the window, also without room for messages")
    mutating func gaps() throws {
        let session = connection(.session)
        incoming.taking(false, over: session, &actions)
        for number in 1...SessionReceiver.window { try receive(number, over: session) }
        incoming.taking(true, over: session, &actions)
        incoming.taking(false, over: session, &actions)
        try incoming.skip(1025...5000, over: session, at: .zero, &actions)
        for number in 5001...5000 + SessionReceiver.window { try receive(number, over: session) }
        #expect(throws: TransportError.self) { try receive(5001 + SessionReceiver.window, over: session) }
    }

    @Test("A message of another client is received once the app has processed it, also over the next connection")
    mutating func marks() {
        incoming.acknowledgeAfterProcessing()
        let broker = connection(.origin)
        arrive(1, over: broker)
        arrive(1, over: broker)
        #expect(take() == ["give 1 [1]", "duplicate"])
        // The broker sends it again, because its connection has ended before the app had processed it.
        incoming.ended(broker)
        arrive(1, over: broker)
        #expect(take() == ["give 3 [1]"])
        incoming.ended(broker)
        // The app processes the second copy late.
        incoming.processed(3, isAbandoned: false, over: broker, &actions)
        arrive(1, over: broker)
        #expect(take() == ["duplicate", "confirm 1"])
        arrive(2, over: broker)
        incoming.ended(broker)
        incoming.processed(5, isAbandoned: true, over: broker, &actions)
        arrive(2, over: broker)
        #expect(take() == ["give 5 [2]", "give 6 [2]"])
    }

    @Test("Frames before the welcome are kept in order, as far as there is room")
    func overtaking() throws {
        let frame = SessionFrame.message(1, Payload([UInt8](repeating: 1, count: 100)))
        var frames = OvertakingFrames(limit: 2 * (100 + Payload.bookkeeping))
        try frames.keep(.acknowledge(3))
        try frames.keep(frame)
        #expect(throws: TransportError.self) { try frames.keep(frame) }
        #expect(frames.bytes == 100 + 2 * Payload.bookkeeping)
        #expect(frames.takeAll() == [.acknowledge(3), frame] && frames.bytes == 0)
        #expect(frames.takeAll().isEmpty)
    }
}
