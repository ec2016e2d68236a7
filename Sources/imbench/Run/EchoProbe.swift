import CommandSupport
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// One message to a server, which must return it. The answer tells which mistake a user has made, before anything is
/// measured.
struct EchoProbe: Sendable {
    /// How often the message is sent over a transport that may lose it.
    private static let sendings = 3

    /// The message.
    let message: Payload
    /// The time limits of the server.
    let limits: EchoBench.Limits
    /// The loop on which the probe runs.
    let loop: EventLoop

    /// Connects, sends the message and waits for it. Call this on the loop.
    ///
    /// - Returns: why the server cannot be measured; `nil` if it can.
    nonisolated(nonsending) func failure(of transport: any Transport) async -> TransportError? {
        // The rows say why a message does not fit.
        guard message.bytes.count <= transport.capabilities.maximumMessageSize else { return nil }
        do throws(TransportError) {
            let connection = try await transport.connect(timeout: limits.connect)
            let failure = await failure(of: connection)
            await connection.close()
            return failure
        } catch {
            return error
        }
    }

    private nonisolated(nonsending) func failure(of connection: any Connection) async -> TransportError? {
        let other = Locked<Int?>(nil)
        for _ in 0..<(connection.capabilities.isReliable ? 1 : Self.sendings) {
            switch await connection.send(message) {
            case .written, .acknowledged, .expired: break
            case .rejected(let error), .unknown(let error): return error
            }
            do throws(TransportError) {
                return try await answer(over: connection, other)
            } catch {
                guard error.code == .timedOut else { return error }
            }
        }
        let seen = other.withLock { $0 }.map { "has sent \($0) other bytes in place of the message" }
        let sentence = "the server \(seen ?? "has not returned a message"); with --url, it must return each one"
        return TransportError(.timedOut, .open, sentence)
    }

    /// Waits for the message. Others may come before it, because a topic may have other publishers.
    ///
    /// - Parameter other: gets the length of such a message.
    /// - Returns: why the server cannot be measured; `nil` once the message has come.
    private nonisolated(nonsending) func answer(
        over connection: any Connection,
        _ other: Locked<Int?>
    ) async throws(TransportError) -> TransportError? {
        let sent = message.bytes
        let limit = Duration.nanoseconds(limits.answer ?? EchoClient.answerTimeout(connection.capabilities))
        return try await within(limit, on: loop, else: "") { () async throws(TransportError) in
            while let payload = try await connection.receive() {
                if payload.bytes == sent { return nil }
                if (try? SessionFrame(payload)) == .refused(.helloExpected) { return .sessionsInPlaceOfEcho }
                other.withLock { $0 = payload.bytes.count }
            }
            return TransportError(.closedByPeer, .open, "the server has closed the connection in place of an answer")
        }
    }
}

extension TransportError {
    /// The error of a session server, which does not return messages.
    fileprivate static let sessionsInPlaceOfEcho = TransportError(
        .unsupported,
        .handshake,
        "the server expects sessions, and 'run' needs one that returns each message; 'imbench chat' can use this server"
    )
}
