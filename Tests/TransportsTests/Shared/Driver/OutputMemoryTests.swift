import Primitives
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("The memory of buffered output", .timeLimit(.minutes(5)), .ownThread)
struct OutputMemoryTests {
    /// The number of buffered bytes, the memory for them, and the memory that the owner was notified of.
    struct State: Sendable {
        var waiting: Int
        var reserved: Int
        var reportedMemory: Int
    }

    static func state(_ connection: DrivenConnection) -> State {
        State(
            waiting: connection.driver.context.output.count,
            reserved: connection.driver.context.output.capacity,
            reportedMemory: connection.reportedMemory
        )
    }

    /// Returns the states of a server's connection over TCP in `body`. At first its peer takes nothing.
    static func states(_ body: @escaping @Sendable (DrivenConnection) -> [State]) async throws -> [State] {
        try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            connection.driver.owner = connection
            connection.channel.room = 0
            defer { connection.driver.close(abort: true) }
            return body(connection)
        }
    }

    @Test("The owner is notified of all buffered output, and the memory shrinks as the peer takes the bytes")
    func shrinking() async throws {
        let states = try await Self.states { connection in
            connection.write([UInt8](repeating: 7, count: 12 << 20))
            var states = [Self.state(connection)]
            connection.take(12 << 20 - 200 << 10)
            states.append(Self.state(connection))
            connection.take(.max)
            return states + [Self.state(connection)]
        }
        #expect(states.map(\.waiting) == [12 << 20, 200 << 10, 0])
        #expect(states.allSatisfy { $0.reportedMemory == $0.reserved })
        #expect(states[0].reserved <= 16 << 20 && states[1].reserved <= 1 << 20 && states[2].reserved == 0)
    }

    @Test("Bytes that are written while the socket is full are counted")
    func fullSocket() async throws {
        let states = try await Self.states { connection in
            (0..<10).map { _ in
                connection.write([UInt8](repeating: 7, count: 100_000))
                return Self.state(connection)
            }
        }
        #expect(states.last?.waiting == 1_000_000)
        #expect(states.allSatisfy { $0.reportedMemory == $0.reserved })
    }

    @Test("The buffer shrinks when a few bytes are left, and these are counted too")
    func fewBytes() async throws {
        let states = try await Self.states { connection in
            connection.write([UInt8](repeating: 7, count: 100))
            return [Self.state(connection)]
        }
        #expect(states[0].waiting == 100 && states[0].reserved <= 200 && states[0].reportedMemory == states[0].reserved)
    }

    @Test("A ping behind a message that fills the buffer does not double it")
    func pingBehind() async throws {
        let states = try await Self.states { connection in
            connection.write([UInt8](repeating: 7, count: 12 << 20))
            try? connection.driver.beginPing(1)
            return [Self.state(connection)]
        }
        #expect(states[0].waiting > 12 << 20 && states[0].reserved <= 16 << 20)
    }

    @Test("The buffer moves its bytes rarely, even if the peer takes small pieces")
    func smallPieces() async throws {
        let states = try await Self.states { connection in
            connection.write([UInt8](repeating: 7, count: 4 << 20))
            return (0..<1000).map { _ in
                connection.take(4 << 10)
                return Self.state(connection)
            }
        }
        let moves = zip(states, states.dropFirst()).count { $0.reserved != $1.reserved }
        #expect(moves <= 10)
        #expect(states.allSatisfy { $0.reserved <= max(4 * $0.waiting, 64 << 10) })
    }

    @Test("All messages of one tick share one block if the peer takes them")
    func oneTick() async throws {
        let message = [UInt8](repeating: 7, count: 1000)
        let (states, sent) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            defer { connection.driver.close(abort: true) }
            let states = (0..<200).map { _ in
                _ = connection.driver.sendUnlessWaiting(Payload(message))
                connection.driver.flushAhead()
                return Self.state(connection)
            }
            connection.driver.flushIfRequested()
            return (states, connection.channel.sent)
        }
        #expect(states.allSatisfy { $0.reserved <= ScratchPool.blockSize })
        #expect(sent.suffix(200 * 1004) == ArraySlice((0..<200).flatMap { _ in [0, 0, 3, 232] + message }))
    }

    @Test("Many messages of one tick stay complete and in order if the peer takes nothing")
    func stuck() async throws {
        let message = [UInt8](repeating: 7, count: 1000)
        let (sent, late) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            defer { connection.driver.close(abort: true) }
            connection.channel.room = 10
            for _ in 0..<100 {
                _ = connection.driver.sendUnlessWaiting(Payload(message))
                connection.driver.flushAhead()
            }
            let sent = connection.channel.sent.count
            connection.take(.max)
            return (sent, connection.driver.channel.bytesSent)
        }
        #expect(sent == 10 && late == 100 * 1004)
    }

    @Test("The output of one tick is limited, so a sender of more waits for the next tick and others can run")
    func outputLimit() async throws {
        let message = [UInt8](repeating: 7, count: 1000)
        let (sent, waiting, atLast) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            defer { connection.driver.close(abort: true) }
            func send() -> Bool {
                guard connection.driver.sendUnlessWaiting(Payload(message)) != nil else { return false }
                connection.driver.flushAhead()
                return true
            }
            var sent = 0
            while sent < 1 << 20, send() { sent += 1 }
            // A blocked sender is resumed when its message is written.
            let driver = LoopBound(connection.driver, to: loop)
            let waits = Task.immediate {
                await withUnsafeContinuation { driver.value.send(Payload(message), 1, $0) }
            }
            let isWaiting = !connection.driver.waiting.blocked.isEmpty
            // The next tick begins after this flush.
            connection.driver.flushIfRequested()
            connection.driver.flushIfRequested()
            let isOver = connection.driver.waiting.blocked.isEmpty
            return (sent, (isOne: isWaiting, task: waits), (isOver, connection.driver.channel.bytesSent, send()))
        }
        #expect(sent == ((1 << 20) + 1003) / 1004 && waiting.isOne)
        #expect(await waiting.task.value == .written)
        #expect(atLast == (true, UInt64(sent + 1) * 1004, true))
    }
}
