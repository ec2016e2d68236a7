import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import FoundationSupport

/// Drives the transport of the system's WebSocket call by call.
@Suite("The calls of the system's WebSocket", .timeLimit(.minutes(5)), .ownThread)
struct ScriptedTaskTests {
    /// Opens a connection over a task.
    private func open(_ task: ScriptedTask, _ options: String = "") async throws -> any Connection {
        let attempt = Task { try await task.registry.connect("wss://chat.example/\(options)", timeout: .seconds(60)) }
        await task.waitForCall("resume")
        let encryption = TLSDescription(version: "", cipher: "", isVerified: true)
        task.report(.opened(subprotocol: nil, encryption))
        return try await attempt.value
    }

    @Test("Nothing more is requested from the system while the app takes no messages")
    func backpressure() async throws {
        let task = ScriptedTask()
        let client = try await open(task, "?inbox=4")
        let message = [UInt8](repeating: 7, count: 10_000)
        await task.waitForCall("receive")
        var delivered = 0
        // Each message arrives with a tick of the loop. A receive that does not come within several ticks does not come.
        var ticks = 0
        while ticks < 50 {
            if task.deliver(.success(.binary(message))) { (delivered, ticks) = (delivered + 1, 0) } else { ticks += 1 }
            _ = await client.statistics()
        }
        // Those of the inbox, those of 64 KiB in the channel, and what the driver has read of its input.
        #expect(delivered >= 4 && delivered < 40, "\(delivered)")
        for _ in 0..<delivered { #expect(try await client.receive()?.bytes == message) }
        await task.waitForCall("receive", times: delivered + 1)
        #expect(task.waitingReceives == 1)
        #expect(client.encryption?.isVerified == true)
        task.report(.ended(WebSocketTaskEnd()))
        _ = await client.closed()
    }

    @Test("A message waits while the system has not passed on those before, and the close frame comes after all")
    func sendingPressure() async throws {
        let task = ScriptedTask(completesSends: false)
        let client = try await open(task, "?write-buffer=1000")
        let message = Payload([UInt8](repeating: 7, count: 100_000))
        let sending = Task {
            for _ in 0..<10 { #expect(await client.send(message) == .written) }
        }
        await task.waitForCall("send", times: 3)
        for _ in 0..<20 { _ = await client.statistics() }
        #expect(task.sent.count == 3)
        for count in [6, 9, 10] {
            task.completeSends()
            await task.waitForCall("send", times: count)
        }
        await sending.value
        let closing = Task { await client.close(CloseReason(.user, code: 4001, text: "lunch")) }
        for _ in 0..<20 { _ = await client.statistics() }
        #expect(!task.calls.contains("close 4001 lunch"))
        task.completeSends()
        await task.waitForCall("close 4001 lunch")
        task.report(.closed(code: 4001, text: "lunch"))
        #expect(await closing.value == 0)
        #expect(await client.closed() == CloseReason(.user, code: 4001, text: "lunch"))
    }

    @Test("A close ends when the task does, without a close frame of the peer")
    func closeWithoutAnswer() async throws {
        let task = ScriptedTask()
        let client = try await open(task)
        let closing = Task { await client.close() }
        await task.waitForCall("close 1000 ")
        task.report(.ended(WebSocketTaskEnd(failure: .init(domain: .url, code: -999))))
        #expect(await closing.value == 0)
        #expect(await client.closed().initiator == .user)
    }

    @Test("Calls that come late or twice are ignored")
    func late() async throws {
        let task = ScriptedTask(completesSends: false)
        let client = try await open(task)
        #expect(await client.send(Payload(text: "a")) == .written)
        await task.waitForCall("send")
        task.completeSends()
        let ping = Task { try await client.ping() }
        await task.waitForCall("ping")
        task.answerPings()
        task.report(.opened(subprotocol: "unasked", nil))
        _ = try await ping.value
        await task.waitForCall("receive")
        task.report(.closed(code: 1011, text: "failed"))
        let end = WebSocketTaskEnd(failure: .init(domain: .posix, code: Int(ENOTCONN)))
        for _ in 0..<2 { task.report(.ended(end)) }
        let reason = await client.closed()
        #expect(reason == CloseReason(peerClosed: 1011, text: "failed"))
        task.report(.closed(code: 1000, text: ""))
        task.deliver(.success(.text("late")))
        task.completeSends()
        task.answerPings()
        await #expect(throws: TransportError.self) { _ = try await client.receive() }
        #expect(await client.closed() == reason)
    }

    @Test("Messages before a lost connection are delivered, and then its error")
    func lost() async throws {
        let task = ScriptedTask()
        let client = try await open(task)
        await task.waitForCall("receive")
        task.deliver(.success(.text("last")))
        task.report(.ended(WebSocketTaskEnd(failure: .init(domain: .posix, code: Int(ECONNRESET)))))
        #expect(try await client.receive() == Payload(text: "last"))
        let error = await #expect(throws: TransportError.self) { _ = try await client.receive() }
        #expect(error?.code == .connectionReset && error?.phase == .open)
    }

    @Test("A failed receive ends the connection, also if the end of the task is not reported")
    func failedReceive() async throws {
        let task = ScriptedTask()
        let client = try await open(task)
        await task.waitForCall("receive")
        task.deliver(.failure(.init(domain: .posix, code: Int(ECONNRESET))))
        #expect(await client.closed().error?.code == .connectionReset)
        await task.waitForCall("cancel")

        let other = ScriptedTask()
        let second = try await open(other, "?max-message=10")
        await other.waitForCall("receive")
        other.deliver(.failure(.init(domain: .posix, code: Int(EMSGSIZE))))
        #expect(await second.closed().error?.code == .messageTooLarge)
        await other.waitForCall("close 1009 ")
    }

    @Test("A connection that nobody holds closes its task")
    func released() async throws {
        let task = ScriptedTask()
        var client: (any Connection)? = try await open(task)
        #expect(client != nil)
        client = nil
        await task.waitForCall("close 1000 ")
        task.report(.ended(WebSocketTaskEnd()))
    }

    @Test("The refusal of a certificate is the error of the attempt, with the peer as the origin of others")
    func refusal() async throws {
        let refusal = TLSFailure(.pinMismatch, "none of its keys is one of the pins")
        for (end, code, origin) in [
            (
                WebSocketTaskEnd(failure: .init(domain: .url, code: -999), refusal: refusal), .certificateRejected,
                .path
            ),
            (
                WebSocketTaskEnd(status: 403, failure: .init(domain: .url, code: -1011), isVerified: true), .forbidden,
                .peer
            ),
            (WebSocketTaskEnd(status: 403), .forbidden, .path),
        ] as [(WebSocketTaskEnd, TransportError.Code, TransportError.Origin)] {
            let task = ScriptedTask()
            let attempt = Task { try await task.registry.connect("wss://chat.example", timeout: .seconds(60)) }
            await task.waitForCall("resume")
            task.report(.ended(end))
            let error = await #expect(throws: TransportError.self) { _ = try await attempt.value }
            #expect(error?.code == code && error?.origin == origin)
            if end.refusal != nil { #expect(error?.tlsProblem == .pinMismatch && error?.phase == .secure) }
        }
    }

    @Test("A redirect from wss to ws is refused, and so is a subprotocol that was not offered")
    func refusedAnswers() async throws {
        let task = ScriptedTask()
        let url = "wss://chat.example/?redirects=3"
        let attempt = Task { try await task.registry.connect(url, timeout: .seconds(60)) }
        await task.waitForCall("resume")
        let location = try HTTPHeader("Location", "ws://chat.example/")
        task.report(.ended(WebSocketTaskEnd(status: 302, headers: [location])))
        let error = await #expect(throws: TransportError.self) { _ = try await attempt.value }
        #expect(error?.code == .handshakeFailed && error?.reason.contains("from wss to ws") == true)

        let other = ScriptedTask()
        let second = Task { try await other.registry.connect("wss://chat.example/", timeout: .seconds(60)) }
        await other.waitForCall("resume")
        other.report(.opened(subprotocol: "unasked", nil))
        let subprotocol = await #expect(throws: TransportError.self) { _ = try await second.value }
        #expect(subprotocol?.code == .handshakeFailed && subprotocol?.reason.contains("not offered") == true)
    }

    @Test("A session of URLSession, its delegate and its task are released at the end and after a cancellation")
    func sessionReleased() async throws {
        for isCancelled in [false, true] {
            weak var task: AnyObject?
            do {
                let request = WebSocketTaskRequest(
                    url: "ws://127.0.0.1:1/",
                    maximumMessageSize: 100,
                    trust: TrustPolicy(),
                    host: "127.0.0.1"
                )
                let made = try URLSessionWebSocket.factory()(request)
                task = made
                let (ends, end) = AsyncStream.makeStream(of: Void.self)
                made.resume { event in
                    if case .ended = event { end.yield() }
                }
                if isCancelled { made.cancel() } else { for await _ in ends { break } }
            }
            // The session releases its delegate on a thread of its own.
            let deadline = ContinuousClock.now + .seconds(60)
            while task != nil, ContinuousClock.now < deadline {
                await withCheckedContinuation { continuation in
                    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
                }
            }
            #expect(task == nil, "\(isCancelled)")
        }
    }
}
