import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// A server whose loop comes late to its new clients.
@Suite("A server that is busy while clients connect", .timeLimit(.minutes(1)), .ownThread)
struct BusyServerTests {
    @Test("Clients that have sent their handshake are served, also if more of them wait than may be in a handshake")
    func waitingHandshakes() async throws {
        let loop = try EventLoop(name: "busy")
        let listener = try await TransportRegistry.standard.listen("ws://127.0.0.1:0/?max-handshakes=2", on: loop)
        let free = DispatchSemaphore(value: 0)
        loop.execute { free.wait() }
        // The kernel accepts the connections while the loop does something else.
        let sockets = try (0..<8).map { _ in try connectedSocket(listener.endpoint.port) }
        defer { sockets.forEach { close($0) } }
        let bytes = request(replacing: "Host", with: ["Host: 127.0.0.1"])
        for socket in sockets { _ = send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
        free.signal()
        let answers = sockets.map { socket in
            var answer = [UInt8](repeating: 0, count: 12)
            let count = recv(socket, &answer, answer.count, 0)
            return String(decoding: answer.prefix(max(0, count)), as: UTF8.self)
        }
        #expect(answers == Array(repeating: "HTTP/1.1 101", count: 8))
        await listener.close()
    }
}
