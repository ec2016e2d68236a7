import Primitives
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("The pings of a connection", .timeLimit(.minutes(5)), .ownThread)
struct PingTests {
    @Test(
        "A new ping replaces an unanswered one, which ends with one error, and late answers are ignored"
    )
    func unanswered() async throws {
        let loop = try EventLoop(name: "pings")
        try await withTaskExecutorPreference(loop) { try await giveUp(on: loop) }
    }

    private func giveUp(on loop: EventLoop) async throws {
        let connection = DrivenConnection(try FramedTCPCore(), on: loop)
        let driver = connection.driver
        let face = CoreConnection(driver, capabilities: driver.core.capabilities)
        let first = Task(executorPreference: loop) { try await face.ping() }
        while driver.waiting.pings.all.isEmpty, !Task.isCancelled { await Task.yield() }
        let second = Task(executorPreference: loop) { try await face.ping() }
        while driver.waiting.pings.all.count < 2, !Task.isCancelled { await Task.yield() }
        for _ in 2..<16 { #expect(Self.refusal(driver) == nil) }
        #expect(Self.refusal(driver) == .busy)

        for index in driver.waiting.pings.all.indices {
            driver.waiting.pings.all[index].sentAt -= PendingPings.replacementAge
        }
        #expect(Self.refusal(driver) == nil)
        let error = await #expect(throws: TransportError.self) { _ = try await first.value }
        #expect(error?.code == .timedOut)

        connection.arrive(.bytes(Self.pong(1)))
        #expect(driver.waiting.pings.all.count == 16)
        connection.arrive(.bytes(Self.pong(2)))
        #expect(try await second.value > .zero)
        for number in 3...17 { connection.arrive(.bytes(Self.pong(UInt8(number)))) }
        #expect(driver.waiting.pings.all.isEmpty && driver.phase == .open)
        driver.close(abort: true)
    }

    @Test("Pings wait while the peer takes none of the written bytes")
    func stuck() async throws {
        let refusal = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            let driver = connection.driver
            connection.channel.room = 0
            for _ in 0..<16 { _ = Self.refusal(driver) }
            for index in driver.waiting.pings.all.indices {
                driver.waiting.pings.all[index].sentAt -= PendingPings.replacementAge
            }
            connection.write([UInt8](repeating: 7, count: driver.limits.writeBuffer))
            defer { driver.close(abort: true) }
            return Self.refusal(driver)
        }
        #expect(refusal == .busy)
    }

    @Test("A peer that repeats an answer without end is ended for too much control work")
    func repeatedAnswers() async throws {
        let code = try await DrivenConnection.onLoop { loop in
            let connection = DrivenConnection(try FramedTCPCore(), on: loop)
            let driver = connection.driver
            _ = Self.refusal(driver)
            for _ in 0..<2 * driver.limits.controlRate { connection.arrive(.bytes(Self.pong(1))) }
            defer { driver.close(abort: true) }
            return driver.reason?.error?.code
        }
        #expect(code == .tooManyRequests)
    }

    /// Pings without waiting for the answer. Returns the error code if the ping is refused.
    private static func refusal(_ driver: ConnectionDriver) -> TransportError.Code? {
        do throws(TransportError) { try driver.beginPing(WaitID.next()) } catch { return error.code }
        return nil
    }

    /// A pong of the framed TCP format.
    private static func pong(_ number: UInt8) -> [UInt8] {
        [0x80, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, number]
    }
}
