import Testing

@testable import TransportAPI

/// What passes a machine leaves it as the ordinary way does.
@Suite struct PassingTests {
    /// Two machines that live through the same; one of them lets pass what may.
    private struct Twins {
        var ordinary: MachineHarness
        var quick: MachineHarness
        /// Messages that a link has and has not settled.
        var underWay: [(link: Int, id: MessageID)] = []
        /// How many messages have passed, and how many of those that came.
        var passed = 0
        var received = 0

        init(_ configuration: SupervisorConfiguration) {
            ordinary = MachineHarness(configuration)
            quick = ordinary
        }

        /// Tells both, and plays the link: each message that it is handed ends so, or waits.
        mutating func tell(_ event: SupervisorMachine.Event, _ fate: SendOutcome? = .written) {
            let (log, waiting) = Self.live(&ordinary, event, fate)
            let (other, _) = Self.live(&quick, event, fate)
            #expect(log == other)
            underWay += waiting
        }

        /// Whether a message of so many bytes would pass.
        func letsPass(_ size: Int) -> Bool {
            var machine = quick.machine
            return machine.letsPass(size)
        }

        /// A message to the far side.
        mutating func submit(_ size: Int, _ fate: SendOutcome?) {
            ordinary.submitted += 1
            let id = MessageID(ordinary.submitted)
            let payload = Payload([UInt8](repeating: 7, count: size))
            guard fate == .written, quick.machine.letsPass(size) else { return tell(.submit(id, payload), fate) }
            passed += 1
            let (log, _) = Self.live(&ordinary, .submit(id, payload), fate)
            quick.machine.passed()
            let actions: [SupervisorAction] = [
                .accepted(id), .transmit(quick.machine.link, id, payload), .finish(id, .written),
            ]
            #expect(log == actions.map { "\($0)" })
        }

        /// A message from the far side.
        mutating func receive(_ payload: Payload, on link: Int) {
            let deadline = quick.machine.deadline ?? Instant(nanoseconds: .max)
            guard quick.machine.passReceived(link, at: quick.now) else { return tell(.received(link, payload)) }
            received += 1
            #expect(deadline <= quick.machine.deadline ?? Instant(nanoseconds: .max))
            let (log, _) = Self.live(&ordinary, .received(link, payload), nil)
            #expect(log == ["\(SupervisorAction.deliver(payload))"])
        }

        mutating func wait(_ duration: Duration) {
            ordinary.wait(duration)
            quick.wait(duration)
        }

        private static func live(
            _ harness: inout MachineHarness,
            _ event: SupervisorMachine.Event,
            _ fate: SendOutcome?
        ) -> ([String], [(link: Int, id: MessageID)]) {
            var log: [String] = []
            var waiting: [(link: Int, id: MessageID)] = []
            var events = [event]
            while !events.isEmpty {
                for action in harness.tell(events.removeFirst()) {
                    log.append("\(action)")
                    guard case .transmit(let link, let id?, _) = action else { continue }
                    if let fate { events.append(.settled(link, id, fate)) } else { waiting.append((link, id)) }
                }
            }
            return (log, waiting)
        }

        /// What of a machine messages change.
        private static func state(_ machine: SupervisorMachine) -> [String] {
            var machine = machine
            let (deadline, delivery) = (machine.deadline, machine.delivery)
            return [
                "\(machine.phase) \(machine.link) \(machine.failures) \(machine.isReading)",
                "\(String(describing: deadline)) \(String(describing: machine.keepalive))",
                "\(machine.lastSent) \(machine.lastProbed) \(machine.idleSince)",
                "\(delivery.link) \(delivery.handedTo) \(delivery.unsettled) \(delivery.isHolding) \(delivery.lastSequence)",
                "\(delivery.outbox.count) \(delivery.outbox.sentCount) \(delivery.outbox.bytes) \(delivery.waiting.count)",
            ]
        }

        func compare() {
            #expect(Self.state(ordinary.machine) == Self.state(quick.machine))
        }

        func compareAll() {
            #expect(String(reflecting: ordinary.machine) == String(reflecting: quick.machine))
        }
    }

    /// Configurations of which some let nothing pass.
    private static func configuration(_ random: inout RandomSource) -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.seconds(1))
        configuration.outbox.maximumCount = 1 + Int(random.next() % 4)
        configuration.outbox.maximumBytes = 100
        configuration.outbox.maximumAge = random.next() % 2 == 0 ? nil : .seconds(20)
        configuration.outbox.whenFull = OutboxConfiguration.Policy.allCases[Int(random.next() % 3)]
        configuration.keepalive.interval = random.next() % 3 == 0 ? .off : .seconds(5)
        configuration.keepalive.timeout = .seconds(random.next() % 2 == 0 ? 2 : 9)
        configuration.keepalive.isIdleOnly = random.next() % 2 == 0
        switch random.next() % 8 {
        case 0: configuration.keepalive.probe = .payload(Payload([1]), answer: Payload([2]))
        case 1: configuration.delivery.mode = .session
        case 2: configuration.keepalive.adaptive = AdaptiveKeepaliveConfiguration()
        default: break
        }
        return configuration
    }

    private static func step(_ twins: inout Twins, _ random: inout RandomSource) {
        let link = twins.ordinary.machine.link
        switch random.next() % 16 {
        case 0...4:
            let fate: SendOutcome? =
                switch random.next() % 20 {
                case 0: nil
                case 1: .rejected(gone)
                default: .written
                }
            twins.submit(Int(random.next() % 110), fate)
        case 5, 6: twins.receive(Payload([UInt8(random.next() % 4)]), on: link - Int(random.next() % 2))
        case 7:
            guard !twins.underWay.isEmpty else { return }
            let settled = twins.underWay.removeFirst()
            twins.tell(.settled(settled.link, settled.id, random.next() % 2 == 0 ? .written : .rejected(gone)))
        case 8, 9: twins.wait(.milliseconds(Int64(random.next() % 4000)))
        case 10:
            guard let deadline = twins.ordinary.machine.deadline else { return }
            (twins.ordinary.now, twins.quick.now) = (
                max(deadline, twins.ordinary.now), max(deadline, twins.quick.now)
            )
            twins.tell(.tick(bytesReceived: random.next() % 3))
        case 11: if random.next() % 3 == 0 { twins.tell(.ended(link, lost)) }
        case 12: twins.tell(.reading(random.next() % 2 == 0))
        case 13: twins.tell(.cancel(MessageID(1 + random.next() % (twins.ordinary.submitted + 1))))
        case 14: twins.tell(.pong(link, .milliseconds(3)))
        default: twins.tell(.path(NetworkPath(isUsable: random.next() % 4 != 0)))
        }
        twins.tell(.connect)
        if case .connecting = twins.ordinary.machine.phase {
            twins.tell(.connected(twins.ordinary.machine.link, .session))
        }
    }

    @Test("through any life")
    func anyLife() {
        var (passed, received) = (0, 0)
        for seed in 1...40 as ClosedRange<UInt64> {
            var random = RandomSource.seeded(seed)
            var twins = Twins(Self.configuration(&random))
            for _ in 0..<100 {
                Self.step(&twins, &random)
                twins.compare()
            }
            twins.compareAll()
            twins.tell(.close(.user))
            twins.compareAll()
            (passed, received) = (passed + twins.passed, received + twins.received)
        }
        #expect(passed > 50 && received > 50)
    }

    @Test("but not past a message that waits")
    func behindOthers() {
        var twins = Twins(SupervisorConfiguration())
        twins.tell(.connect)
        #expect(!twins.letsPass(1))
        twins.tell(.connected(1, .session))
        #expect(twins.letsPass(1))
        twins.submit(1, nil)
        #expect(!twins.letsPass(1))
        twins.tell(.settled(1, MessageID(1), .written))
        #expect(twins.letsPass(1))
    }

    @Test("nor what the outbox would refuse, or a link that is gone")
    func refused() {
        var configuration = SupervisorConfiguration()
        configuration.outbox.maximumBytes = 10
        var twins = Twins(configuration)
        twins.tell(.connect)
        twins.tell(.connected(1, .session))
        #expect(twins.letsPass(10) && !twins.letsPass(11))
        twins.tell(.ended(1, lost))
        #expect(!twins.letsPass(1))
        let isReceived = twins.quick.machine.passReceived(1, at: twins.quick.now)
        #expect(!isReceived)
    }
}
