import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("The memory of what waits for the kernel", .timeLimit(.minutes(5)), .ownThread)
struct OutputMemoryTests {
    /// How many bytes wait, how many there is memory for, and of how many the owner knows.
    struct State: Sendable {
        var waiting: Int
        var reserved: Int
        var told: Int
    }

    static func state(_ link: DrivenLink) -> State {
        State(
            waiting: link.driver.context.output.count,
            reserved: link.driver.context.output.capacity,
            told: link.told
        )
    }

    /// What a server's link over TCP goes through in `body`, with nothing taken at first.
    static func states(_ body: @escaping @Sendable (DrivenLink) -> [State]) async throws -> [State] {
        try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            link.driver.owner = link
            link.channel.room = 0
            defer { link.driver.close(abort: true) }
            return body(link)
        }
    }

    @Test("counts whole, and shrinks as the far side takes what waits")
    func shrinking() async throws {
        let states = try await Self.states { link in
            link.write([UInt8](repeating: 7, count: 12 << 20))
            var states = [Self.state(link)]
            link.take(12 << 20 - 200 << 10)
            states.append(Self.state(link))
            link.take(.max)
            return states + [Self.state(link)]
        }
        #expect(states.map(\.waiting) == [12 << 20, 200 << 10, 0])
        #expect(states.allSatisfy { $0.told == $0.reserved })
        #expect(states[0].reserved <= 16 << 20 && states[1].reserved <= 1 << 20 && states[2].reserved == 0)
    }

    @Test("counts what is written while the socket is full")
    func fullSocket() async throws {
        let states = try await Self.states { link in
            (0..<10).map { _ in
                link.write([UInt8](repeating: 7, count: 100_000))
                return Self.state(link)
            }
        }
        #expect(states.last?.waiting == 1_000_000)
        #expect(states.allSatisfy { $0.told == $0.reserved })
    }

    @Test("is given back by who has a few bytes left, and counts then too")
    func fewBytes() async throws {
        let states = try await Self.states { link in
            link.write([UInt8](repeating: 7, count: 100))
            return [Self.state(link)]
        }
        #expect(states[0].waiting == 100 && states[0].reserved <= 200 && states[0].told == states[0].reserved)
    }

    @Test("does not double for a ping behind a message that fills it")
    func pingBehind() async throws {
        let states = try await Self.states { link in
            link.write([UInt8](repeating: 7, count: 12 << 20))
            try? link.driver.beginPing(1)
            return [Self.state(link)]
        }
        #expect(states[0].waiting > 12 << 20 && states[0].reserved <= 16 << 20)
    }

    @Test("moves seldom, in however small pieces it is taken")
    func seldom() async throws {
        let states = try await Self.states { link in
            link.write([UInt8](repeating: 7, count: 4 << 20))
            return (0..<1000).map { _ in
                link.take(4 << 10)
                return Self.state(link)
            }
        }
        let moves = zip(states, states.dropFirst()).count { $0.reserved != $1.reserved }
        #expect(moves <= 10)
        #expect(states.allSatisfy { $0.reserved <= max(4 * $0.waiting, 64 << 10) })
    }

    @Test("is one block for all that is sent in one turn, if the far side takes it")
    func oneTurn() async throws {
        let message = [UInt8](repeating: 7, count: 1000)
        let (states, sent) = try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            defer { link.driver.close(abort: true) }
            let states = (0..<200).map { _ in
                _ = link.driver.sendUnlessWaiting(Payload(message))
                link.driver.flushAhead()
                return Self.state(link)
            }
            link.driver.turnEnded()
            return (states, link.channel.sent)
        }
        #expect(states.allSatisfy { $0.reserved <= ScratchPool.blockSize })
        #expect(sent.suffix(200 * 1004) == ArraySlice((0..<200).flatMap { _ in [0, 0, 3, 232] + message }))
    }

    @Test("of much that is sent in one turn waits, whole and in order, if the far side takes nothing")
    func stuck() async throws {
        let message = [UInt8](repeating: 7, count: 1000)
        let (sent, late) = try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            defer { link.driver.close(abort: true) }
            link.channel.room = 10
            for _ in 0..<100 {
                _ = link.driver.sendUnlessWaiting(Payload(message))
                link.driver.flushAhead()
            }
            let sent = link.channel.sent.count
            link.take(.max)
            return (sent, link.driver.channel.bytesSent)
        }
        #expect(sent == 10 && late == 100 * 1004)
    }

    @Test("that has left in one turn has a bound: who sends more waits for the next, so that others have theirs")
    func endlessTurn() async throws {
        let message = [UInt8](repeating: 7, count: 1000)
        let (sent, waiting, atLast) = try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            defer { link.driver.close(abort: true) }
            func send() -> Bool {
                guard link.driver.sendUnlessWaiting(Payload(message)) != nil else { return false }
                link.driver.flushAhead()
                return true
            }
            var sent = 0
            while sent < 1 << 20, send() { sent += 1 }
            // Who waits is told when the message is written.
            let driver = LoopConfined(living: link.driver, on: loop)
            let waits = Task.immediate {
                await withUnsafeContinuation { driver.value.send(Payload(message), 1, $0) }
            }
            let isWaiting = !link.driver.waiting.blocked.isEmpty
            // The next turn begins behind this one.
            link.driver.turnEnded()
            link.driver.turnEnded()
            let isOver = link.driver.waiting.blocked.isEmpty
            return (sent, (isOne: isWaiting, task: waits), (isOver, link.driver.channel.bytesSent, send()))
        }
        #expect(sent == ((1 << 20) + 1003) / 1004 && waiting.isOne)
        #expect(await waiting.task.value == .written)
        #expect(atLast == (true, UInt64(sent + 1) * 1004, true))
    }
}
