import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Works for one time budget on each message, on behalf of other connections than its sender.
private final class BusyHandler: ConnectionHandler {
    private(set) var messages = 0

    func handle(_ event: CoreEvent, on driver: ConnectionDriver) {
        guard case .message = event else { return }
        messages += 1
        let end = MonotonicClock.now() + EventLoop.timeBudget
        while MonotonicClock.now() <= end {}
        driver.noteMuchWork()
    }

    func ended(_: ConnectionDriver, _: CloseReason) {}
}

@Suite("Work on the input of one connection", .timeLimit(.minutes(5)), .ownThread)
struct UninterruptedWorkTests {
    @Test("stops when the connection exceeds its control rate, and does not continue to the end of the input")
    func controlWork() async throws {
        let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        let (answers, code) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            defer { connection.driver.close(abort: true) }
            connection.channel.arriving = [.bytes(Array(repeatElement(ping, count: 3000).joined()))]
            connection.driver.ready(.read)
            while connection.driver.isDeferred { connection.driver.loop.runNow(connection.driver, for: .deferred) }
            connection.driver.flushIfRequested()
            return (connection.channel.sent.count / ping.count, connection.driver.reason?.error?.code)
        }
        #expect(code == .tooManyRequests)
        // The close frame after them is shorter than ten pongs.
        #expect(1001..<1011 ~= answers)
    }

    @Test("continues among the deferred handlers once a server's client has sent a few control frames")
    func fewDemands() async throws {
        let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        let (isInLine, first, all) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            connection.driver.owner = connection
            defer { connection.driver.close(abort: true) }
            // The server has received a message of the client, so its input is not deferred.
            connection.arrive(.bytes([0, 0, 0, 1, 7]))
            connection.channel.arriving = [.bytes(Array(repeatElement(ping, count: 100).joined()))]
            connection.driver.ready(.read)
            let isInLine = connection.driver.isDeferred
            connection.driver.flushIfRequested()
            let first = connection.channel.sent.count / ping.count
            while connection.driver.isDeferred { connection.driver.loop.runNow(connection.driver, for: .deferred) }
            connection.driver.flushIfRequested()
            return (isInLine, first, connection.channel.sent.count / ping.count)
        }
        #expect(isInLine && 1...4 ~= first && all == 100)
    }

    @Test("is interrupted between two messages for many other connections")
    func fanOut() async throws {
        let (first, all) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            let handler = BusyHandler()
            connection.driver.handler = handler
            defer { connection.driver.close(abort: true) }
            connection.channel.arriving = [.bytes(Array(repeatElement([0, 0, 0, 1, 7] as [UInt8], count: 8).joined()))]
            connection.driver.ready(.read)
            let first = handler.messages
            while connection.driver.isDeferred { connection.driver.loop.runNow(connection.driver, for: .deferred) }
            return (first, handler.messages)
        }
        // The first reading of the clock starts the time budget.
        #expect(first == 2 && all == 8)
    }
}
