import SocketIO
import TestSupport
import Testing

@testable import TransportAPI

private let markKey = OriginFilter.Key(high: 8, low: 9)

/// Tests what the next process knows of a session.
@Suite("A stored session", .timeLimit(.minutes(5)), .ownThread)
struct StoredSessionTests {
    private static let full = TransportError(.storageFailed, .open, "the disk is full", detail: 28)
    private static let numbering = SessionNumbering(after: 0, sender: 99)

    private let store = StoreInMemory()

    /// A process of the app, which a test kills by making the next one.
    private struct Process {
        let runtime: VirtualRuntime
        let script: Script
        let supervisor: Supervisor

        init(
            _ store: StoreInMemory,
            mode: DeliveryConfiguration.Mode = .session,
            isBrokered: Bool = false,
            blockingTime: Duration = .zero
        ) throws {
            script = Script(Capabilities(acknowledgesMessages: isBrokered, maximumMessageSize: 1 << 20))
            // Each process has other random numbers.
            runtime = VirtualRuntime(seed: UInt64(store.opened) + 1, blockingTime: blockingTime)
            var setup = try script.setup(["memory://server"]) { $0.delivery.mode = mode }
            setup.store = store
            supervisor = try Supervisor(setup, on: runtime)
        }

        func connect() {
            supervisor.connect()
            runtime.settle()
        }

        func welcome(_ incarnation: UInt64, received: UInt64 = 0, _ numbering: SessionNumbering = numbering) {
            script.last?.give(.welcome(incarnation: incarnation, received: received, numbering: numbering))
            runtime.settle()
        }

        func give(_ number: UInt64, isRepeated: Bool = false) {
            script.last?.give(.message(number, bytes("\(number)"), isRepeated: isRepeated))
            runtime.settle()
        }

        /// Another client of the broker has published this message.
        func publish(_ number: UInt64, isRepeated: Bool = false) {
            let ann = SessionID(public: 5)
            script.last?.give(.origin(ann, number, bytes("\(number)"), isRepeated: isRepeated))
            runtime.settle()
        }

        /// The sender, the number and the mark of each message that was published over the last connection.
        var published: [(SessionID, UInt64, Bool)] {
            script.last?.frames.compactMap {
                if case .origin(let sender, let number, _, let isRepeated) = $0 {
                    (sender, number, isRepeated)
                } else {
                    nil
                }
            } ?? []
        }

        /// The hello of the last connection.
        var hello: (SessionID, ClientHello)? {
            if case .hello(let id, let hello)? = script.last?.frames.first { (id, hello) } else { nil }
        }

        /// The frames after it.
        var frames: [SessionFrame] { Array(script.last?.frames.dropFirst() ?? []) }

        func receive(_ count: Int, _ deliveries: Subscription<ReceivedMessage>) throws -> [ReceivedMessage] {
            try runtime.run { await deliveries.prefix(count).reduce(into: []) { $0.append($1) } }
        }

        func submit(_ text: String) throws -> MessageID? {
            try runtime.run { try? await supervisor.submit(bytes(text)) }
        }
    }

    @Test("The app gets again what it has not acknowledged, marked and under the same identifier, and nothing else")
    func receives() throws {
        let first = try Process(store)
        let firstDeliveries = first.supervisor.deliveries
        first.connect()
        first.welcome(7)
        for number: UInt64 in 1...3 { first.give(number) }
        let given = try first.receive(3, firstDeliveries)
        #expect(given.map(\.isRepeated) == [false, false, false])
        given[0].acknowledge()
        first.runtime.settle()
        #expect(first.frames == [.acknowledge(1)])

        let second = try Process(store)
        let deliveries = second.supervisor.deliveries
        second.connect()
        let (id, hello) = try #require(second.hello)
        #expect(id == first.hello?.0 && hello.incarnation == 7 && hello.received == 1)
        #expect(hello.attempt == 2 << 16 | 1)
        second.welcome(7, SessionNumbering(after: 1, sender: 99))
        for number: UInt64 in 2...3 { second.give(number, isRepeated: true) }
        second.give(4)
        let again = try second.receive(3, deliveries)
        #expect(again.map { $0.payload.string } == ["2", "3", "4"])
        #expect(again.map(\.isRepeated) == [true, true, false])
        #expect(again.prefix(2).map(\.id) == given.dropFirst().map(\.id) && again[0].id != nil)
        for message in again { message.acknowledge() }
        second.runtime.settle()
        #expect(second.frames.last == .acknowledge(4))
        withExtendedLifetime((given, first)) {}
    }

    @Test("A message of a broker that the app has acknowledged does not come again, though the broker sends it again")
    func brokered() throws {
        let first = try Process(store, isBrokered: true, blockingTime: .milliseconds(10))
        let firstDeliveries = first.supervisor.deliveries
        first.connect()
        first.runtime.advance(by: .milliseconds(30))
        for number: UInt64 in 1...3 { first.publish(number) }
        let given = try first.receive(3, firstDeliveries)
        // The second one cannot be confirmed, but the store knows it.
        given[0].acknowledge()
        given[2].acknowledge()
        first.runtime.settle()
        #expect(first.script.last?.confirmed == 0)
        first.runtime.advance(by: .milliseconds(20))
        #expect(first.script.last?.confirmed == 1)

        let second = try Process(store, isBrokered: true)
        let deliveries = second.supervisor.deliveries
        second.connect()
        second.publish(1)
        for number: UInt64 in 2...3 { second.publish(number, isRepeated: true) }
        second.publish(4)
        let again = try second.receive(2, deliveries)
        #expect(again.map { $0.payload.string } == ["2", "4"] && again.map(\.isRepeated) == [true, false])
        #expect(again.first?.id == given[1].id && given[1].id != nil)
        for message in again { message.acknowledge() }
        second.runtime.settle()
        #expect(second.script.last?.confirmed == 4)
        withExtendedLifetime((given, first)) {}
    }

    @Test(
        "A message of a broker that the app acknowledges after the connection's end does not come to the next process"
    )
    func brokeredLate() throws {
        let first = try Process(store, isBrokered: true)
        let firstDeliveries = first.supervisor.deliveries
        first.connect()
        first.publish(1)
        let message = try #require(try first.receive(1, firstDeliveries).first)
        first.script.last?.end(CloseReason(.peer))
        first.runtime.settle()
        message.acknowledge()
        first.runtime.settle()

        let second = try Process(store, isBrokered: true)
        let deliveries = second.supervisor.deliveries
        second.connect()
        for number: UInt64 in 1...2 { second.publish(number) }
        #expect(try second.receive(1, deliveries).first?.payload.string == "2")
    }

    @Test("A message of a broker is confirmed once the store could write that it was processed")
    func brokeredAfterFailure() throws {
        let process = try Process(store, isBrokered: true)
        let deliveries = process.supervisor.deliveries
        process.connect()
        process.publish(1)
        store.fail(writes: [Self.full])
        try process.receive(1, deliveries).first?.acknowledge()
        process.runtime.settle()
        #expect(process.script.last?.confirmed == 0)
        process.runtime.advance(by: .seconds(5))
        #expect(process.script.last?.confirmed == 1)
    }

    @Test("The store keeps the marks of the last 4,096 messages of brokers")
    func marks() throws {
        var marks = StoredMarks()
        var kept: Set<StoredRecord> = []
        func write(_ count: Int) {
            for number in 0..<count { marks.append(OriginFilter.Mark(origin: UInt64(number), content: 7)) }
            for change in marks.changes {
                switch change {
                case .put(let record): kept.insert(record)
                case .remove(let key): kept = kept.filter { $0.key != key }
                }
            }
            marks.wrote(marks.waitingCount)
        }
        for count in [1, 4000, 95, 1, 0, 10, 5000, 1] { write(count) }
        #expect(kept.count == 4096)
        let (again, known) = try StoredMarks.read(Array(kept))
        #expect(known.count == 4096 && known.last == OriginFilter.Mark(origin: 0, content: 7))
        marks = again
        write(1)
        #expect(kept.count == 4096)
    }

    @Test("A sender says over a broker which messages it may have sent before")
    func repeatsOverBroker() throws {
        let first = try Process(store, isBrokered: true)
        first.connect()
        first.script.last?.block(true)
        _ = try first.submit("1")
        first.runtime.settle()
        let second = try Process(store, isBrokered: true)
        second.connect()
        let next = try #require(try second.submit("2")).number
        second.runtime.settle()
        #expect(second.published.count == 2 && second.published.first?.0 == second.published.last?.0)
        #expect(second.published.map(\.1) == [1, next] && second.published.map(\.2) == [true, false])
    }

    @Test("The peer learns that a message was processed once the store knows it")
    func acknowledgesLate() throws {
        let process = try Process(store, blockingTime: .milliseconds(10))
        let deliveries = process.supervisor.deliveries
        process.connect()
        process.runtime.advance(by: .milliseconds(30))
        process.welcome(7)
        process.give(1)
        let message = try #require(try process.receive(1, deliveries).first)
        process.runtime.advance(by: .milliseconds(20))
        message.acknowledge()
        process.runtime.settle()
        #expect(process.frames == [])
        process.runtime.advance(by: .milliseconds(10))
        #expect(process.frames == [.acknowledge(1)])
    }

    @Test("The peer is not told what the store could not write, until it could")
    func acknowledgesAfterFailure() throws {
        let process = try Process(store)
        let deliveries = process.supervisor.deliveries
        process.connect()
        process.welcome(7)
        process.give(1)
        store.fail(writes: [Self.full])
        try process.receive(1, deliveries).first?.acknowledge()
        process.runtime.settle()
        #expect(process.frames == [])
        process.runtime.advance(by: .seconds(5))
        #expect(process.frames == [.acknowledge(1)])
    }

    @Test("Messages keep their numbers in the next process, and numbers that nobody sends are skipped")
    func sends() throws {
        let first = try Process(store)
        first.connect()
        first.welcome(7)
        for number in 1...3 { #expect(try first.submit("\(number)") == MessageID(UInt64(number))) }
        first.script.last?.give(.acknowledge(1))
        first.runtime.settle()

        let second = try Process(store)
        let fourth = try #require(try second.submit("4"))
        second.connect()
        let (_, hello) = try #require(second.hello)
        #expect(hello.numbering == SessionNumbering(after: 1, sender: first.hello?.1.numbering.sender ?? 0))
        // The server has received the second message, too.
        second.welcome(7, received: 2)
        #expect(
            second.frames == [
                .message(3, bytes("3"), isRepeated: true), .skip(4...fourth.number - 1),
                .message(fourth.number, bytes("4")),
            ]
        )
        second.script.last?.give(.acknowledge(fourth.number))
        second.runtime.settle()
        #expect(store.kept == [])
    }

    @Test("A message whose number is beyond the window of the server waits for an acknowledgement")
    func staysInWindow() throws {
        let first = try Process(store)
        _ = try first.submit("1")
        let second = try Process(store)
        let next = try #require(try second.submit("2")).number
        let third = try Process(store)
        let last = try #require(try third.submit("3")).number
        #expect(last > 1 + 1024)
        third.connect()
        third.welcome(7)
        let stored: [SessionFrame] = [
            .message(1, bytes("1"), isRepeated: true), .skip(2...next - 1),
            .message(next, bytes("2"), isRepeated: true),
        ]
        #expect(third.frames == stored)
        third.script.last?.give(.acknowledge(1))
        third.runtime.settle()
        #expect(third.frames == stored)
        third.script.last?.give(.acknowledge(next))
        third.runtime.settle()
        #expect(third.frames == stored + [.skip(next + 1...last - 1), .message(last, bytes("3"))])
    }

    @Test("A server that has forgotten the session gets all unacknowledged messages, once the store knows the new one")
    func forgotten() throws {
        let first = try Process(store)
        first.connect()
        first.welcome(7)
        for number in 1...3 { _ = try first.submit("\(number)") }
        first.script.last?.give(.acknowledge(1))
        first.runtime.settle()

        let second = try Process(store, blockingTime: .milliseconds(10))
        second.connect()
        second.runtime.advance(by: .milliseconds(20))
        second.welcome(8)
        #expect(second.frames == [])
        second.runtime.advance(by: .milliseconds(10))
        let again = (2...3).map { SessionFrame.message(UInt64($0), bytes("\($0)"), isRepeated: true) }
        #expect(second.frames == again)

        let third = try Process(store)
        third.connect()
        #expect(third.hello?.1.incarnation == 8)
    }

    @Test("A process on a full disk sends what the store has, in a session of its own")
    func full() throws {
        let first = try Process(store)
        first.connect()
        first.welcome(7)
        _ = try first.submit("1")

        store.fail(writes: [Self.full])
        let second = try Process(store)
        second.connect()
        let (id, hello) = try #require(second.hello)
        #expect(id != first.hello?.0 && hello.incarnation == 0 && hello.numbering == first.hello?.1.numbering)
        second.welcome(8)
        #expect(second.frames == [.message(1, bytes("1"), isRepeated: true)])
        second.script.last?.give(.acknowledge(1))
        second.runtime.settle()
        #expect(store.kept == [])

        // There is room now, so the session continues in the third process.
        let third = try Process(store)
        third.connect()
        #expect(third.hello?.0 == id && third.hello?.1.incarnation == 8)
    }

    @Test("Closing a supervisor with a store leaves its session to the next one")
    func closes() throws {
        let process = try Process(store)
        process.connect()
        process.welcome(7)
        try process.runtime.run { await process.supervisor.close() }
        #expect(process.frames == [] && process.script.last?.hasEnded == true)
    }

    @Test("A session of another version is refused, and nothing is sent")
    func otherVersion() throws {
        store.put(StoredRecord(StoredSession.key, [2]))
        let process = try Process(store)
        process.connect()
        #expect(process.script.last == nil)
        let error = process.runtime.begin { await process.supervisor.send(bytes("1")) }
        guard case .rejected(let reason)? = error.value else {
            Issue.record("\(String(describing: error.value))")
            return
        }
        #expect(reason.code == .storageFailed && store.writes == [])
    }

    @Test("After the last number of a process, the session begins again under another identifier")
    func launches() throws {
        var session = StoredSession(identity: SessionID(high: 1, low: 2), sender: 3, markKey: markKey)
        (session.launch, session.incarnation, session.processed, session.lastNumber) = (.max, 4, 5, 6)
        store.put(session.record)
        let process = try Process(store)
        process.connect()
        let (id, hello) = try #require(process.hello)
        #expect(id != session.identity && hello.incarnation == 0 && hello.received == 0 && hello.attempt == 1 << 16 | 1)
        #expect(hello.numbering == SessionNumbering(after: 6, sender: 3))
        _ = try process.submit("7")
        process.welcome(7)
        #expect(process.frames == [.message(7, bytes("7"))])
    }

    @Test("A message of a process in plain mode has no number that an earlier session has used")
    func plainBetween() throws {
        let first = try Process(store)
        first.connect()
        first.welcome(7)
        _ = try first.submit("1")
        first.script.last?.give(.acknowledge(1))
        first.runtime.settle()

        let second = try Process(store, mode: .plain)
        let id = try #require(try second.submit("2"))

        let third = try Process(store)
        third.connect()
        third.welcome(7, received: 1)
        #expect(third.hello?.1.numbering.ended == id.number - 1 && id.number > 512)
        #expect(third.frames == [.message(id.number, bytes("2"), isRepeated: true)])
    }

    @Test("A supervisor with a store has no other identity")
    func identity() throws {
        var setup = try Script().setup(["memory://server"]) { $0.delivery.mode = .session }
        setup.store = store
        setup.client = SessionClient(id: SessionID(high: 1, low: 2), launch: 1)
        #expect(throws: TransportError.self) { try Supervisor(setup, on: VirtualRuntime()) }
    }
}

@Suite("The record of a session") struct StoredSessionRecordTests {
    @Test("A session is read back from its record")
    func read() throws {
        var session = StoredSession(identity: SessionID(high: 1, low: .max), sender: 1 << 63, markKey: markKey)
        (session.launch, session.incarnation, session.processed, session.lastNumber) = (300, 4, 5, 1 << 62)
        #expect(try StoredSession(session.record) == session && session.record.value.count == 67)
    }

    @Test("A record with a wrong length, version or number is refused", arguments: 0..<4)
    func refuses(_ mistake: Int) {
        var session = StoredSession(identity: SessionID(high: 1, low: 2), sender: 3, markKey: markKey)
        if mistake == 0 { session.processed = 1 << 62 | 1 }
        var record = session.record
        if mistake == 1 { record.value.append(0) }
        if mistake == 2 { record.value[0] = 2 }
        if mistake == 3 { record.key.number = 1 }
        #expect(throws: TransportError.self) { try StoredSession(record) }
    }
}
