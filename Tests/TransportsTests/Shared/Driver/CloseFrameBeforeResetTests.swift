import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// A side that closes a TCP connection with unread bytes resets it, even after a close frame.
@Suite("A reset after a close frame", .timeLimit(.minutes(5)), .ownThread)
struct CloseFrameBeforeResetTests {
    enum Kind: Sendable, CaseIterable {
        case webSocket, mqttOverWebSocket, framed, plain, mqtt

        /// Opens a client's connection of this kind.
        func open(on loop: EventLoop) throws -> DrivenConnection {
            switch self {
            case .webSocket:
                let core = try WebSocketCore(.client, WebSocketConfiguration())
                let connection = DrivenConnection(core, on: loop)
                connection.arrive(.bytes(response(key: (connection.driver.core as? WebSocketCore)?.key ?? "")))
                return connection
            case .mqttOverWebSocket:
                let core = try WebSocketCarrier(MQTTClientCore(MQTTConfiguration()), over: WebSocketConfiguration())
                let connection = DrivenConnection(core, on: loop)
                let key = (connection.driver.core as? WebSocketCarrier<MQTTClientCore>)?.outer.key ?? ""
                connection.arrive(.bytes(response(key: key, with: ["Sec-WebSocket-Protocol: mqtt"])))
                connection.arrive(.bytes(frame(to: .client, 0x82, [0x20, 2, 0, 0])))
                return connection
            case .framed: return DrivenConnection(try FramedTCPCore(), on: loop)
            case .plain:
                return DrivenConnection(try FramedTCPCore(TCPConfiguration(framing: .plain(.init()))), on: loop)
            case .mqtt:
                let connection = DrivenConnection(try MQTTClientCore(MQTTConfiguration()), on: loop)
                connection.arrive(.bytes([0x20, 2, 0, 0]))
                return connection
            }
        }
    }

    /// How the driver notices the reset.
    enum Order: Sendable, CaseIterable {
        /// By the next read, together with the close frame or after it was answered.
        case together, afterwards
        /// By a write: that of the answer, or one while the close frame is still unread.
        case answering, writing
    }

    static let closeFrame = frame(to: .client, 0x88, closeBody(1008, "no"))

    /// Returns why a connection ended after `body` ran on it while it was open.
    static func ending(
        _ kind: Kind,
        _ body: @escaping @Sendable (DrivenConnection) -> Void
    ) async throws -> (wasOpen: Bool, reason: CloseReason?) {
        try await DrivenConnection.onLoop { loop in
            let connection = try kind.open(on: loop)
            let wasOpen = connection.driver.phase == .open
            body(connection)
            let reason = connection.driver.reason
            connection.driver.close(abort: true)
            return (wasOpen, reason)
        }
    }

    @Test(
        "A connection that is reset after a close frame ends with the reason of that frame",
        arguments: [Kind.webSocket, .mqttOverWebSocket],
        Order.allCases
    )
    func afterCloseFrame(kind: Kind, order: Order) async throws {
        let (wasOpen, reason) = try await Self.ending(kind) { connection in
            switch order {
            case .together: connection.arrive(.bytes(Self.closeFrame), .failure(ECONNRESET))
            case .afterwards:
                connection.arrive(.bytes(Self.closeFrame))
                connection.arrive(.failure(ECONNRESET))
            case .answering:
                connection.channel.writeFailure = EPIPE
                connection.arrive(.bytes(Self.closeFrame))
            case .writing:
                connection.channel.writeFailure = ECONNRESET
                connection.channel.arriving = [.bytes(Self.closeFrame), .end]
                connection.write([0])
            }
        }
        #expect(wasOpen && reason?.code == 1008 && reason?.error?.code == .forbidden && reason?.text == "no")
    }

    @Test(
        "A connection that is reset without a close frame ends with the error of the system",
        arguments: Kind.allCases,
        [true, false]
    )
    func withoutCloseFrame(kind: Kind, isNoticedByReading: Bool) async throws {
        let (wasOpen, reason) = try await Self.ending(kind) { connection in
            if isNoticedByReading {
                connection.arrive(.failure(ECONNRESET))
            } else {
                connection.channel.writeFailure = EPIPE
                connection.channel.arriving = [.end]
                connection.write([0])
            }
        }
        #expect(wasOpen && reason?.error?.code == .connectionReset)
        #expect(reason?.error?.detail == Int(isNoticedByReading ? ECONNRESET : EPIPE))
    }

    @Test(
        "A connection that is reset after this side's close frame ends with the reason of that frame",
        arguments: [Kind.webSocket, .framed]
    )
    func afterOwnCloseFrame(kind: Kind) async throws {
        let (wasOpen, reason) = try await Self.ending(kind) { connection in
            connection.driver.beginClose(CloseReason(.user, text: "bye"))
            connection.driver.flushIfRequested()
            connection.arrive(.failure(ECONNRESET))
        }
        #expect(wasOpen && reason == CloseReason(.user, text: "bye"))
    }

    @Test("A reset during a write does not lose the messages before it")
    func unreadMessage() async throws {
        let received = try await DrivenConnection.onLoop { loop in
            let connection = try Kind.webSocket.open(on: loop)
            connection.channel.writeFailure = ECONNRESET
            connection.channel.arriving = [.bytes(frame(to: .client, 0x81, text("last")) + Self.closeFrame)]
            connection.write([0])
            defer { connection.driver.close(abort: true) }
            return try connection.driver.takeMessage()?.get()
        }
        #expect(received == Payload(text: "last"))
    }

    @Test("A reset during a write loses neither a complete large message nor the reason of the close frame")
    func largeMessage() async throws {
        let message = [UInt8](repeating: 7, count: 2 << 20)
        let (received, reason) = try await DrivenConnection.onLoop { loop in
            let connection = try Kind.webSocket.open(on: loop)
            connection.channel.arriving = [.bytes(frame(to: .client, 0x82, message) + Self.closeFrame)]
            connection.driver.ready(.read)
            // All has been read then, but the driver may have stopped in the middle and yielded to other connections.
            while !connection.channel.arriving.isEmpty, connection.driver.isDeferred {
                connection.driver.loop.runNow(connection.driver, for: .deferred)
            }
            connection.channel.writeFailure = ECONNRESET
            connection.channel.arriving = [.end]
            connection.write([0])
            defer { connection.driver.close(abort: true) }
            return (try connection.driver.takeMessage()?.get(), connection.driver.reason)
        }
        #expect(received == Payload(message) && reason?.code == 1008)
    }

    @Test("A connection ends after the messages that are still in its inbox", arguments: [10, 600])
    func behindMessages(taken: Int) async throws {
        let count = 1500
        let received = try await DrivenConnection.onLoop { loop in
            let connection = try Kind.webSocket.open(on: loop)
            defer { connection.driver.close(abort: true) }
            var received = 0
            func take(_ most: Int) throws {
                for _ in 0..<most {
                    guard let payload = try? connection.driver.takeMessage()?.get() else { return }
                    received += payload.bytes == [UInt8(received & 255)] ? 1 : 0
                }
            }
            func work() {
                while connection.driver.isDeferred { connection.driver.loop.runNow(connection.driver, for: .deferred) }
            }
            connection.arrive(.bytes((0..<count).flatMap { frame(to: .client, 0x82, [UInt8($0 & 255)]) }))
            work()
            try take(taken)
            connection.arrive(.end)
            work()
            for _ in 0..<4 {
                try take(count)
                work()
            }
            return received
        }
        #expect(received == count)
    }

    @Test("A TCP server that closes with unread bytes ends the connection with the reason of its close frame")
    func overTCP() async throws {
        let server = try ClosingServer(Self.closeFrame)
        let connection = try await TransportRegistry.standard.connect("ws://127.0.0.1:\(server.port)/")
        #expect(await connection.send(Payload(text: "never read")) == .written)
        let reason = await connection.closed()
        #expect(reason.code == 1008 && reason.error?.code == .forbidden)
    }
}

/// Opens one WebSocket, waits for bytes of the client without reading them, sends a close frame and closes.
private struct ClosingServer {
    let port: UInt16

    init(_ closeFrame: [UInt8]) throws {
        let listener = try RawListener()
        port = listener.port
        listener.serve { _, connection in
            listener.stop()
            Self.serve(connection, closeFrame)
        }
    }

    private static func serve(_ connection: Int32, _ closeFrame: [UInt8]) {
        let name = "Sec-WebSocket-Key: "
        let lines = readHead(from: connection).components(separatedBy: "\r\n")
        let key = lines.first { $0.hasPrefix(name) }?.dropFirst(name.count) ?? ""
        let answer = response(key: String(key))
        _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
        var byte: UInt8 = 0
        _ = recv(connection, &byte, 1, Int32(MSG_PEEK))
        _ = send(connection, closeFrame, closeFrame.count, Int32(MSG_NOSIGNAL))
        close(connection)
    }
}
