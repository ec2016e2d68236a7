import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// A handler that works for one time budget on each message, for the benefit of other connections.
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
    @Test("A driver stops in the middle of its input when the connection exceeds its control rate")
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

    @Test("A driver defers the rest of the input after a few control frames of a server's client")
    func fewControlFrames() async throws {
        let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        let (isDeferred, first, all) = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            connection.driver.owner = connection
            defer { connection.driver.close(abort: true) }
            // The server has received a message of the client, so its input is not deferred.
            connection.arrive(.bytes([0, 0, 0, 1, 7]))
            connection.channel.arriving = [.bytes(Array(repeatElement(ping, count: 100).joined()))]
            connection.driver.ready(.read)
            let isDeferred = connection.driver.isDeferred
            connection.driver.flushIfRequested()
            let first = connection.channel.sent.count / ping.count
            while connection.driver.isDeferred { connection.driver.loop.runNow(connection.driver, for: .deferred) }
            connection.driver.flushIfRequested()
            return (isDeferred, first, connection.channel.sent.count / ping.count)
        }
        #expect(isDeferred && 1...4 ~= first && all == 100)
    }

    @Test("Work for many other connections is interrupted between two messages")
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
