import Testing

@testable import TransportAPI

@Suite struct DeliveryRulesTests {
    @Test("A message that is cancelled in flight ends once, whatever happens to it later")
    func cancelledOnce() {
        var client = MachineHarness(.session)
        client.open()
        let id = client.submit()
        client.tell(.cancel(id))
        client.tell(.cancel(id))
        client.tell(.received(client.machine.connection, SessionFrame.acknowledge(1).payload))
        #expect(client.outcomes(id) == [.unknown(.cancelledSend)])
        #expect(client.machine.link.delivery.outbox.isEmpty)
    }

    @Test("A full outbox drops the oldest unsent message, and not one that a lost connection has sent")
    func dropsUnsentOnly() {
        var configuration = SupervisorConfiguration.session
        configuration.outbox.maximumCount = 2
        configuration.outbox.whenFull = .dropOldest
        configuration.delivery.window = 1
        var client = MachineHarness(configuration)
        client.open()
        let sent = client.submit()
        let unsent = client.submit()
        client.tell(.ended(client.machine.connection, lost))
        let new = client.submit()
        #expect(client.outcomes(sent).isEmpty)
        #expect(client.outcomes(unsent) == [.rejected(.outboxFull)])
        #expect(client.outcomes(new).isEmpty)
    }

    /// A delivery with two messages in flight and 200,000 that wait. Work for each that grows with the number of the others
    /// would take minutes.
    private func backlog(
        _ mode: DeliveryConfiguration.Mode,
        _ capabilities: Capabilities,
        _ change: (inout OutboxConfiguration) -> Void = { _ in }
    ) -> Delivery {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = mode
        configuration.delivery.window = 2
        configuration.outbox.maximumCount = 200_002
        change(&configuration.outbox)
        var delivery = Delivery(configuration, identity: SessionID(high: 1, low: 1))
        delivery.attach(1, capabilities)
        var actions: [SupervisorAction] = []
        for number in 1...200_002 as ClosedRange<UInt64> {
            delivery.submit(MessageID(number), Payload([1]), at: .zero, &actions)
        }
        return delivery
    }

    private func finished(_ actions: [SupervisorAction]) -> [(id: UInt64, outcome: SendOutcome)] {
        actions.compactMap { if case .finish(let id, let outcome) = $0 { (id.number, outcome) } else { nil } }
    }

    @Test(
        "An end with many waiting messages rejects them in their order, and leaves those that the connection has",
        .timeLimit(.minutes(1)),
        arguments: [DeliveryConfiguration.Mode.plain, .session]
    )
    func endsBacklog(_ mode: DeliveryConfiguration.Mode) {
        var delivery = backlog(mode, .session)
        var actions: [SupervisorAction] = []
        delivery.finishAll(gone, &actions)
        let finished = finished(actions)
        #expect(finished.map(\.id) == Array(3...200_002))
        #expect(finished.allSatisfy { $0.outcome == .rejected(gone) })
        #expect(delivery.outbox.count == 2 && !delivery.hasFinishedAll)
        actions = []
        for number in 1...2 as ClosedRange<UInt64> {
            delivery.settled(MessageID(number), on: 1, .written, at: .zero, &actions)
        }
        #expect(self.finished(actions).map(\.id) == [1, 2] && delivery.hasFinishedAll)
    }

    @Test(
        "Many messages that expire at once end in their order, and the numbers of those in flight are still skipped",
        .timeLimit(.minutes(1)),
        arguments: [DeliveryConfiguration.Mode.plain, .session]
    )
    func expiresBacklog(_ mode: DeliveryConfiguration.Mode) {
        var delivery = backlog(mode, .session) { $0.maximumAge = .seconds(60) }
        var actions: [SupervisorAction] = []
        delivery.detach(at: .zero, &actions)
        let end = Instant.zero.advanced(by: .seconds(60))
        delivery.deadlineReached(at: end, &actions)
        let finished = finished(actions)
        #expect(finished.map(\.id) == Array(1...200_002))
        #expect(finished.prefix(2).allSatisfy { $0.outcome == .unknown(.acknowledgementMissing) })
        #expect(finished.dropFirst(2).allSatisfy { $0.outcome == .expired })
        #expect(delivery.outbox.count == (mode == .session ? 2 : 0) && delivery.outbox.bytes == 0)
    }

    @Test(
        "A full outbox drops the oldest message behind those in flight for each new one, however many there are",
        .timeLimit(.minutes(1))
    )
    func dropsFromBacklog() {
        var delivery = backlog(.session, .session) { $0.whenFull = .dropOldest }
        var actions: [SupervisorAction] = []
        for number in 200_003...400_000 as ClosedRange<UInt64> {
            delivery.submit(MessageID(number), Payload([1]), at: .zero, &actions)
        }
        #expect(finished(actions).map(\.id) == Array(3...200_000))
        #expect(delivery.outbox.count == 200_002)
    }

    @Test("A full outbox refuses a new message if all others have been sent")
    func refusesNewest() {
        var configuration = SupervisorConfiguration.session
        configuration.outbox.maximumCount = 1
        configuration.outbox.whenFull = .dropOldest
        var client = MachineHarness(configuration)
        client.open()
        let sent = client.submit()
        client.tell(.ended(client.machine.connection, lost))
        let new = client.submit()
        #expect(client.outcomes(sent).isEmpty)
        #expect(client.outcomes(new) == [.rejected(.outboxFull)])
    }

    @Test("A message that one connection may have sent stays unknown although the next connection returns it unsent")
    func mayHaveLeftBefore() {
        var configuration = SupervisorConfiguration.session
        configuration.outbox.maximumAge = .seconds(60)
        var client = MachineHarness(configuration)
        client.open(.broker)
        let id = client.submit()
        client.tell(.ended(1, lost))
        client.tell(.settled(1, id, .unknown(gone)))
        client.open(.broker)
        client.tell(.ended(2, lost))
        client.tell(.settled(2, id, .rejected(gone)))
        client.wait(.seconds(61))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(client.outcomes(id) == [.unknown(.acknowledgementMissing)])
    }

    @Test("A cancelled message that a connection returns unsent is not sent again")
    func cancelledAndGivenBack() {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .immediate
        var client = MachineHarness(configuration)
        client.open()
        let id = client.submit()
        client.tell(.cancel(id))
        client.tell(.ended(1, lost))
        client.tell(.settled(1, id, .rejected(gone)))
        #expect(client.machine.link.delivery.outbox.isEmpty)
        #expect(client.outcomes(id) == [.unknown(.cancelledSend)])
    }

    @Test("After a dead path has recovered, a lost window is sent again at the rate of its acknowledgements")
    func burstOfLosses() throws {
        var configuration = SupervisorConfiguration.session
        configuration.delivery.window = 64
        var delivery = Delivery(configuration, identity: SessionID(high: 1, low: 2))
        delivery.attach(1, .datagrams)
        var (now, received, timeouts) = (Instant.zero, UInt64(0), 0)
        var receiver = SessionReceiver()
        /// Delivers the sent messages to the peer, and its acknowledgements back.
        func arrive(_ sent: [SupervisorAction]) throws -> [SupervisorAction] {
            var actions: [SupervisorAction] = []
            for case .transmit(_, _, let payload) in sent {
                guard case .message(let sequence, let content, _) = try SessionFrame(payload) else { continue }
                _ = try receiver.receive(sequence, SessionReceiver.Arrival(content)) { _, _ in received += 1 }
                try delivery.acknowledge(through: receiver.received, at: now, &actions)
            }
            return actions
        }
        for number in 1...100 as ClosedRange<UInt64> {
            var lost: [SupervisorAction] = []
            delivery.submit(MessageID(number), Payload([1]), at: now, &lost)
        }
        // The path loses everything for four timeouts.
        while received < 100, timeouts < 6 {
            now = try #require(delivery.deadline)
            timeouts += 1
            var sent: [SupervisorAction] = []
            delivery.deadlineReached(at: now, &sent)
            guard timeouts > 4 else { continue }
            while !sent.isEmpty { sent = try arrive(sent) }
        }
        #expect(received == 100 && timeouts == 5)
        #expect(delivery.outbox.isEmpty && delivery.roundTrip.timeout < .seconds(2))
    }

    @Test("Over a connection that loses messages, one without room is dropped, and asked for when there is room")
    func dropsWithoutRoom() {
        let message = SessionFrame.message(1, Payload([5])).payload
        let repeated = SessionFrame.message(2, Payload([6])).payload
        var client = MachineHarness(.session)
        client.open(.datagrams)
        let sent = client.submit()
        client.tell(.received(1, message))
        client.tell(.reading(.withoutRoom))
        #expect(frames(client.tell(.received(1, repeated))).isEmpty)
        // Everything else is handled, also a message that had room and whose acknowledgement was lost.
        #expect(frames(client.tell(.received(1, message))) == [.acknowledge(1)])
        #expect(frames(client.tell(.received(1, SessionFrame.ping(7).payload))) == [.pong(7)])
        client.tell(.received(1, SessionFrame.acknowledge(1).payload))
        #expect(client.outcomes(sent) == [.acknowledged])
        #expect(frames(client.tell(.reading(.all))) == [.acknowledge(1)])
        #expect(frames(client.tell(.received(1, repeated))) == [.acknowledge(2)])
        // Without a drop there is nothing to ask for.
        client.tell(.reading(.withoutRoom))
        #expect(frames(client.tell(.reading(.all))).isEmpty)
    }

    @Test("An acknowledgement of nothing new repeats the oldest message once, until a message is acknowledged")
    func prompted() {
        var client = MachineHarness(.session)
        client.open(.datagrams)
        for _ in 1...3 { client.submit() }
        let nothing = ConversationEvent.received(1, SessionFrame.acknowledge(0).payload)
        #expect(frames(client.tell(nothing)) == [.message(1, Payload([1]), isRepeated: true)])
        #expect(frames(client.tell(nothing)).isEmpty)
        let first = ConversationEvent.received(1, SessionFrame.acknowledge(1).payload)
        #expect(
            frames(client.tell(first)) == [2, 3].map { .message(UInt64($0), Payload([$0]), isRepeated: true) }
        )
        #expect(frames(client.tell(first)) == [.message(2, Payload([2]), isRepeated: true)])
        var reliable = MachineHarness(.session)
        reliable.open()
        reliable.submit()
        #expect(frames(reliable.tell(nothing)).isEmpty)
    }

    private func frames(_ actions: [SupervisorAction]) -> [SessionFrame] {
        actions.compactMap { action in
            guard case .transmit(_, _, let payload) = action else { return nil }
            return try? SessionFrame(payload)
        }
    }

    @Test("On an unordered connection, a message that overtakes the welcome is delivered after the welcome")
    func overtakesTheWelcome() {
        let capabilities = Capabilities(isReliable: true, isOrdered: false, maximumMessageSize: 1200)
        let message = SessionFrame.message(1, Payload([5])).payload
        var client = MachineHarness(.session)
        client.tell(.connect)
        client.tell(.connected(client.machine.connection, capabilities))
        func given(_ actions: [SupervisorAction]) -> Int {
            actions.filter { if case .deliver = $0 { true } else { false } }.count
        }
        #expect(given(client.tell(.received(client.machine.connection, message))) == 0)
        let welcome = SessionFrame.welcome(incarnation: 7, received: 0).payload
        #expect(given(client.tell(.received(client.machine.connection, welcome))) == 1)
        #expect(given(client.tell(.received(client.machine.connection, message))) == 0)
    }

    @Test("A connection ends if more messages overtake the welcome than the buffer holds")
    func tooManyOvertakeTheWelcome() {
        let capabilities = Capabilities(isReliable: true, isOrdered: false, maximumMessageSize: 1200)
        var configuration = SupervisorConfiguration.session
        configuration.messageBufferBytes = 4096
        var client = MachineHarness(configuration)
        client.tell(.connect)
        client.tell(.connected(client.machine.connection, capabilities))
        let payload = Payload([UInt8](repeating: 1, count: 1000))
        var isOver = false
        for sequence in 1...4 as ClosedRange<UInt64> {
            let frame = SessionFrame.message(sequence, payload).payload
            #expect(!isOver)
            let actions = client.tell(.received(client.machine.connection, frame))
            isOver = actions.contains { if case .close = $0 { true } else { false } }
        }
        #expect(isOver)
        // The messages of the ended connection are not delivered on the next one.
        client.tell(.connect)
        client.tell(.connected(client.machine.connection, capabilities))
        let welcome = SessionFrame.welcome(incarnation: 7, received: 0).payload
        let actions = client.tell(.received(client.machine.connection, welcome))
        #expect(!actions.contains { if case .deliver = $0 { true } else { false } })
    }
}
