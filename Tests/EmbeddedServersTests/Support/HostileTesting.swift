import EmbeddedServers
import Foundation
import SocketIO
import Testing
import TransportAPI
import Transports

/// A client that follows no protocol. It has a blocking socket and sends whatever bytes a test gives it.
final class HostileClient: Sendable {
    private let socket: Int32

    convenience init(_ server: EmbeddedServer, receiveBuffer: Int32? = nil) throws {
        try self.init(port: try #require(server.endpoint.port), receiveBuffer: receiveBuffer)
    }

    init(port: UInt16, host: String = "127.0.0.1", receiveBuffer: Int32? = nil) throws {
        socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var size = receiveBuffer {
            setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr(host)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
    }

    deinit {
        Foundation.close(socket)
    }

    /// Sends all bytes. Returns `false` if the server has closed the connection.
    @discardableResult
    func send(_ bytes: [UInt8]) async -> Bool {
        await aside { $0.sendAll(bytes) }
    }

    /// Sends the bytes repeatedly until the server has closed the connection.
    func flood(_ bytes: [UInt8]) async {
        await aside { while $0.sendAll(bytes) {} }
    }

    /// Sends the bytes repeatedly without blocking, up to a limit. Returns how many bytes the kernel took.
    func sendWhatFits(_ bytes: [UInt8], atMost bound: Int) -> Int {
        var sent = 0
        while sent < bound {
            let count = bytes.withUnsafeBytes {
                Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            }
            sent += max(count, 0)
            guard count == bytes.count else { break }
        }
        return sent
    }

    /// Whether the server's kernel has all sent bytes. On a busy machine they arrive later than `send` returns.
    var isDelivered: Bool {
        #if os(Linux)
        var bytes: Int32 = 0
        return ioctl(socket, UInt(TIOCOUTQ), &bytes) == 0 && bytes == 0
        #else
        return true
        #endif
    }

    /// The bytes from the server up to its end, or up to `mark`.
    @discardableResult
    func read(until mark: [UInt8]? = nil) async -> [UInt8] {
        await aside { $0.readAll(until: mark) }
    }

    /// Shuts down both directions.
    func hangUp() {
        shutdown(socket, Int32(SHUT_RDWR))
    }

    /// Sends the head of a WebSocket handshake and waits for the answer.
    func upgrade(_ headers: String = "") async {
        await send(Array(Self.request(headers).utf8))
        await read(until: Array("\r\n\r\n".utf8))
    }

    /// Sends CONNECT, by default for a clean session, and waits for CONNACK.
    func connectMQTT(_ name: String = "mallory", will: [UInt8]? = nil, clean: Bool = true) async {
        await send(Self.connectPacket(name, will, clean))
        await read(until: [0x20, 2])
    }

    /// Sends CONNECT in a WebSocket message and waits for CONNACK.
    func connectMQTTOverWebSocket(_ name: String = "mallory", will: [UInt8]? = nil) async {
        await upgrade("Sec-WebSocket-Protocol: mqtt\r\n")
        await send(frame(0x82, Self.connectPacket(name, will, true)))
        await read(until: [0x20, 2])
    }

    private static func connectPacket(_ name: String, _ will: [UInt8]?, _ clean: Bool) -> [UInt8] {
        func field(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xff)] + bytes }
        let flags: UInt8 = (clean ? 2 : 0) | (will == nil ? 0 : 4)
        var body = field(Array("MQTT".utf8)) + [4, flags, 0, 0] + field(Array(name.utf8))
        if let will { body += field([0x77]) + field(will) }
        var (length, rest): ([UInt8], Int) = ([], body.count)
        repeat {
            length.append(UInt8(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
        return [0x10] + length + body
    }

    /// Runs blocking work on its own thread, because the tests share only a few threads.
    private func aside<Value: Sendable>(_ body: @escaping @Sendable (HostileClient) -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: body(self)) }
        }
    }

    private func sendAll(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    private func readAll(until mark: [UInt8]?) -> [UInt8] {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while mark.map({ !all.contains($0) }) ?? true {
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else { break }
            all += buffer[..<count]
        }
        return all
    }

    static func request(_ headers: String = "") -> String {
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\(headers)\r\n"
    }
}

/// Runs `attack` against a server and returns the error that ended it. Another client must be served before and after.
func ending(
    _ transport: String,
    _ options: String,
    _ attack: (HostileClient) async -> Void
) async throws -> TransportError {
    let attacked = try await Attacked(transport, options)
    #expect(try await attacked.isServing())
    let hostile = try HostileClient(attacked.server, receiveBuffer: 4096)
    await attack(hostile)
    let event = try await attacked.event()
    withExtendedLifetime(hostile) {}
    #expect(try await attacked.isServing())
    await attacked.stop()
    return try #require(event.reason.error)
}

/// A server, the events of its owner, and a legitimate client.
struct Attacked {
    /// The loop of the servers under attack, so that they do not slow down other tests.
    private static let loop = Result { try EventLoop(name: "attacked") }

    let server: EmbeddedServer
    let legitimate: any Connection
    private let events: AsyncStream<ServerEvent>

    /// - Parameter options: The options in the server's URL.
    init(_ transport: String, _ options: String = "") async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
        events = stream
        let url = "\(transport)://127.0.0.1:0/?\(options)"
        server = try await EmbeddedServer.start(url, on: try Self.loop.get()) { continuation.yield($0) }
        var endpoint = server.endpoint
        endpoint.options = try TransportRegistry.standard.transport(named: transport).loopback("legitimate")
        legitimate = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(20))
    }

    /// The event of the next client that ends.
    func event() async throws -> ServerEvent {
        try #require(await events.first { _ in true })
    }

    /// The error code of the next client that ends.
    func code() async throws -> TransportError.Code {
        try #require(try await event().reason.error?.code)
    }

    /// Whether a message of the legitimate client comes back.
    func isServing() async throws -> Bool {
        let text = "still here"
        guard await legitimate.send(Payload(text: text)).isSuccess else { return false }
        return try await legitimate.receive()?.bytes == Array(text.utf8)
    }

    func stop() async {
        await legitimate.close()
        await server.stop()
    }
}

extension Array where Element: Equatable {
    fileprivate func contains(_ part: [Element]) -> Bool {
        guard part.count <= count else { return false }
        return (0...count - part.count).contains { self[$0..<$0 + part.count].elementsEqual(part) }
    }
}

/// A frame of a WebSocket client. Its masking key is zero, which changes nothing.
func frame(_ first: UInt8, _ payload: [UInt8] = []) -> [UInt8] {
    let length: [UInt8] =
        payload.count < 126
        ? [0x80 | UInt8(payload.count)]
        : payload.count < 65_536
            ? [0xfe, UInt8(payload.count >> 8), UInt8(payload.count & 0xff)]
            : [0xff] + withUnsafeBytes(of: UInt64(payload.count).bigEndian) { Array($0) }
    return [first] + length + [0, 0, 0, 0] + payload
}
