import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Works for a share on each message, for others than its sender.
private final class BusyHandler: LinkHandler {
    private(set) var messages = 0

    func handle(_ event: CoreEvent, on driver: LinkDriver) {
        guard case .message = event else { return }
        messages += 1
        let end = MonotonicClock.now() + EventLoop.share
        while MonotonicClock.now() <= end {}
        driver.noteMuchWork()
    }

    func ended(_: LinkDriver, _: CloseReason) {}
}

@Suite("Work on what one link says", .timeLimit(.minutes(5)), .ownThread)
struct UninterruptedWorkTests {
    @Test("stops when the link has asked for too much, and does not go on to the end of what has come")
    func demands() async throws {
        let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        let (answers, code) = try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            defer { link.driver.close(abort: true) }
            link.channel.arriving = [.bytes(Array(repeatElement(ping, count: 3000).joined()))]
            link.driver.ready(.read)
            while link.driver.isWaitingForShare { link.driver.shareBegins() }
            link.driver.turnEnded()
            return (link.channel.sent.count / ping.count, link.driver.reason?.error?.code)
        }
        #expect(code == .tooManyRequests)
        // The goodbye behind them is shorter than ten.
        #expect(1001..<1011 ~= answers)
    }

    @Test("goes on in the line of the busy once a server's client has asked for a few things that bring nothing")
    func fewDemands() async throws {
        let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        let (isInLine, first, all) = try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            link.driver.owner = link
            defer { link.driver.close(abort: true) }
            // The server knows it by now.
            link.arrive(.bytes([0, 0, 0, 1, 7]))
            link.channel.arriving = [.bytes(Array(repeatElement(ping, count: 100).joined()))]
            link.driver.ready(.read)
            let isInLine = link.driver.isWaitingForShare
            link.driver.turnEnded()
            let first = link.channel.sent.count / ping.count
            while link.driver.isWaitingForShare { link.driver.shareBegins() }
            link.driver.turnEnded()
            return (isInLine, first, link.channel.sent.count / ping.count)
        }
        #expect(isInLine && 1...4 ~= first && all == 100)
    }

    @Test("is interrupted between two messages for many others")
    func fanOut() async throws {
        let (first, all) = try await DrivenLink.onLoop { loop in
            let link = DrivenLink(try FramedTCPCore(), on: loop)
            let handler = BusyHandler()
            link.driver.handler = handler
            defer { link.driver.close(abort: true) }
            link.channel.arriving = [.bytes(Array(repeatElement([0, 0, 0, 1, 7] as [UInt8], count: 8).joined()))]
            link.driver.ready(.read)
            let first = handler.messages
            while link.driver.isWaitingForShare { link.driver.shareBegins() }
            return (first, handler.messages)
        }
        // The first look at the clock starts the share.
        #expect(first == 2 && all == 8)
    }
}
