import TestSupport
import Testing

@testable import TransportAPI

/// Tests apps that leave a sequence of messages and iterate another one, in every order of release and creation.
@Suite("A change of the listener", .timeLimit(.minutes(5)), .ownThread)
struct ListenerChangeTests {
    private let runtime = VirtualRuntime()
    private let script: Script

    init() {
        script = Script(at: runtime)
    }

    private func supervisor(_ change: (inout SupervisorConfiguration) -> Void = { _ in }) throws -> Supervisor {
        let supervisor = try Supervisor(script.setup { change(&$0) }, on: runtime)
        supervisor.connect()
        runtime.settle()
        return supervisor
    }

    private func give(_ numbers: ClosedRange<Int>) {
        for number in numbers { script.last?.give(bytes("\(number)")) }
        runtime.settle()
    }

    /// The next messages of a sequence, as far as they have come.
    private func rest(_ messages: Subscription<Payload>, _ count: Int) throws -> [String] {
        try runtime.run { await messages.prefix(count).reduce(into: []) { $0.append($1.string) } }
    }

    private func texts(_ numbers: ClosedRange<Int>) -> [String] { numbers.map(String.init) }

    @Test("An app that leaves its loop and begins another one receives every message")
    func loops() throws {
        let supervisor = try supervisor()
        let messages = supervisor.messages
        give(1...200)
        _ = consume messages
        let seen = try runtime.run {
            var seen: [String] = []
            while seen.count < 200 {
                for await message in supervisor.messages {
                    seen.append(message.string)
                    if seen.count % 10 == 0 { break }
                }
            }
            return seen
        }
        #expect(seen == texts(1...200))
        try runtime.run { await supervisor.close() }
    }

    @Test("The messages that the last listener leaves come before those that arrive after it")
    func untaken() throws {
        let supervisor = try supervisor()
        var first: Subscription<Payload>? = supervisor.messages
        give(1...5)
        if let first { #expect(try rest(first, 2) == texts(1...2)) }
        first = nil
        runtime.settle()
        give(6...8)
        #expect(try rest(supervisor.messages, 6) == texts(3...8))
        try runtime.run { await supervisor.close() }
    }

    @Test("A listener that is made before the last one is released receives what that one leaves", arguments: [0, 3])
    func madeBefore(later: Int) throws {
        let supervisor = try supervisor()
        var first: Subscription<Payload>? = supervisor.messages
        give(1...5)
        if let first { #expect(try rest(first, 1) == texts(1...1)) }
        let second = supervisor.messages
        runtime.settle()
        if later > 0 { give(6...5 + later) }
        first = nil
        runtime.settle()
        give(6 + later...9)
        #expect(try rest(second, 8) == texts(2...9))
        try runtime.run { await supervisor.close() }
    }

    @Test("The buffer of a listener that left is limited, and its connection is read again when the next one takes it")
    func limit() throws {
        let supervisor = try supervisor { $0.messageBuffer = 4 }
        give(1...10)
        #expect(
            try runtime.run {
                for await message in supervisor.messages { return message.string }; return ""
            } == "1"
        )
        #expect(script.last?.unread == 5)
        #expect(try rest(supervisor.messages, 9) == texts(2...10))
        #expect(script.last?.unread == 0)
        try runtime.run { await supervisor.close() }
    }

    @Test("A listener that leaves others behind changes nothing for them, nor for the next one")
    func others() throws {
        let supervisor = try supervisor()
        var first: Subscription<Payload>? = supervisor.messages
        let other = supervisor.messages
        give(1...4)
        if let first { #expect(try rest(first, 1) == texts(1...1)) }
        first = nil
        runtime.settle()
        let third = supervisor.messages
        runtime.settle()
        give(5...6)
        #expect(try rest(other, 6) == texts(1...6))
        #expect(try rest(third, 2) == texts(5...6))
        try runtime.run { await supervisor.close() }
    }

    @Test("A listener that has taken a later message gets no earlier one that another has left")
    func order() throws {
        let supervisor = try supervisor()
        var first: Subscription<Payload>? = supervisor.messages
        give(1...4)
        let second = supervisor.messages
        runtime.settle()
        give(5...6)
        #expect(try rest(second, 1) == texts(5...5))
        _ = consume first
        first = nil
        runtime.settle()
        give(7...7)
        #expect(try rest(second, 2) == texts(6...7))
        try runtime.run { await supervisor.close() }
    }

    @Test("The messages that the last listener of a closed supervisor leaves are there for a later one")
    func closed() throws {
        let supervisor = try supervisor()
        var first: Subscription<Payload>? = supervisor.messages
        give(1...5)
        if let first { #expect(try rest(first, 2) == texts(1...2)) }
        try runtime.run { await supervisor.close() }
        first = nil
        runtime.settle()
        let second = supervisor.messages
        #expect(try runtime.run { await second.reduce(into: []) { $0.append($1.string) } } == texts(3...5))
    }

    @Test("Messages that the last listener leaves become deliveries, and the room for more does not depend on them")
    func becomeDeliveries() throws {
        let supervisor = try supervisor { $0.messageBuffer = 4 }
        var first: Subscription<Payload>? = supervisor.messages
        give(1...6)
        if let first { #expect(try rest(first, 1) == texts(1...1)) }
        first = nil
        runtime.settle()
        let deliveries = supervisor.deliveries
        // This listener takes nothing, and is released.
        _ = supervisor.messages
        runtime.settle()
        var seen: [String] = []
        for _ in 2...6 {
            let message = try #require(try runtime.run { await deliveries.first { _ in true } })
            seen.append(message.payload.string)
            message.acknowledge()
            runtime.settle()
        }
        #expect(seen == texts(2...6))
        give(7...20)
        for number in 7...20 {
            let message = try #require(try runtime.run { await deliveries.first { _ in true } })
            #expect(message.payload.string == "\(number)")
            message.acknowledge()
            runtime.settle()
        }
        try runtime.run { await supervisor.close() }
    }

    @Test("A listener of deliveries gets those that another has left, even if it has taken later ones")
    func deliveries() throws {
        let supervisor = try supervisor { $0.delivery.mode = .session }
        var first: Subscription<ReceivedMessage>? = supervisor.deliveries
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        for number: UInt64 in 1...3 { connection.give(.message(number, bytes("\(number)"))) }
        runtime.settle()
        let second = supervisor.deliveries
        runtime.settle()
        connection.give(.message(4, bytes("4")))
        runtime.settle()
        func take(_ count: Int) throws -> [String] {
            let taken = try runtime.run { await second.prefix(count).reduce(into: []) { $0.append($1) } }
            for message in taken { message.acknowledge() }
            runtime.settle()
            return taken.map(\.payload.string)
        }
        #expect(try take(1) == ["4"])
        _ = consume first
        first = nil
        runtime.settle()
        #expect(try take(3) == texts(1...3))
        #expect(connection.frames.last == .acknowledge(4))
        try runtime.run { await supervisor.close() }
    }

    @Test("Undelivered messages that a listener leaves are kept for the next one")
    func undelivered() throws {
        script.answer { _ in .fail(.serverUnavailable) }
        let supervisor = try supervisor { $0.outbox.maximumAge = .seconds(5) }
        var first: Subscription<Undelivered>? = supervisor.undelivered
        for number in 1...3 { try runtime.run { _ = try? await supervisor.submit(bytes("\(number)")) } }
        runtime.advance(by: .seconds(10))
        if let first { #expect(try runtime.run { await first.first { _ in true } }?.payload.string == "1") }
        first = nil
        runtime.settle()
        let second = supervisor.undelivered
        let seen = try runtime.run { await second.prefix(2).reduce(into: []) { $0.append($1.payload.string) } }
        #expect(seen == ["2", "3"])
        try runtime.run { await supervisor.close() }
    }
}
