import SocketIO
import TransportAPI

/// Refuses every client's credentials in its protocol's own words.
final class RefusingServer: PollHandler {
    /// The words, by transport. One that is missing has no credentials to refuse.
    static let answers: [String: [UInt8]] = [
        // RFC 9110, section 15.5.2.
        "ws": Array("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8),
        // MQTT 3.1.1, section 3.2: CONNACK, bad user name or password.
        "mqtt": [0x20, 0x02, 0x00, 0x04],
    ]

    private let socket: ListeningSocket
    private let answer: [UInt8]
    private var clients: [StreamSocket] = []

    /// Listens on a port of the system's choice. To be called on the loop.
    init(_ answer: [UInt8], on loop: EventLoop) throws(SystemError) {
        guard let address = SocketAddress(numeric: "127.0.0.1", port: 0) else {
            throw SystemError("bind", EADDRNOTAVAIL)
        }
        self.answer = answer
        socket = try ListeningSocket(boundTo: address, on: loop)
        try socket.attach(self)
    }

    var port: UInt16? { socket.local?.port }

    func ready(_: SocketIO.Readiness) {
        while let client = try? socket.accept() {
            // The answer does not depend on the question, and fits into any socket's buffer.
            _ = answer.withUnsafeBytes { client.write($0) }
            client.shutdownWriting()
            clients.append(client)
        }
    }

    func close() {
        for client in clients { client.close(abort: false) }
        socket.close()
    }
}
