import Foundation
import SocketIO

/// A connection of a client that speaks HTTP by hand over a blocking socket, so that it can break every rule.
final class RawHTTPConnection: Sendable {
    /// A whole response.
    struct Response: Sendable {
        var status: Int
        /// The names are in lower case.
        var headers: [String: String]
        var body: [UInt8] = []

        /// The body as a text.
        var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// Why a response cannot be read.
    struct ResponseError: Error, CustomStringConvertible {
        var description: String
    }

    private let socket: Int32
    /// The bytes that have arrived and were not consumed.
    private let pending = Locked<[UInt8]>([])

    init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var size = receiveBuffer {
            setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in.loopback(port)
        let descriptor = socket
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw ResponseError(description: "the server does not accept the connection") }
    }

    deinit {
        close(socket)
    }

    /// Ends both directions at once.
    func hangUp() {
        shutdown(socket, Int32(SHUT_RDWR))
    }

    /// Runs blocking work on its own thread, because the tests share only a few threads.
    private func aside<Value: Sendable>(
        _ body: @escaping @Sendable (RawHTTPConnection) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try body(self) }) }
        }
    }

    // MARK: Requests

    /// The bytes of a request. Host and Content-Length are added.
    static func request(_ method: String, _ target: String, _ headers: [String] = [], _ body: [UInt8] = []) -> [UInt8] {
        let length = method == "POST" ? ["Content-Length: \(body.count)"] : []
        let lines = ["\(method) \(target) HTTP/1.1", "Host: localhost"] + headers + length + ["", ""]
        return Array(lines.joined(separator: "\r\n").utf8) + body
    }

    /// Sends all bytes. Returns `false` if the server has closed the connection.
    @discardableResult
    func send(_ bytes: [UInt8]) async throws -> Bool {
        try await aside { connection in
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes {
                    Foundation.send(connection.socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return false }
                sent += count
            }
            return true
        }
    }

    /// Sends a request and returns the response.
    func ask(
        _ method: String,
        _ target: String,
        _ headers: [String] = [],
        _ body: [UInt8] = []
    ) async throws -> Response {
        try await send(Self.request(method, target, headers, body))
        return try await response(hasBody: method != "HEAD")
    }

    // MARK: Responses

    /// Returns the next whole response.
    func response(hasBody: Bool = true) async throws -> Response {
        try await aside { connection in
            var response = try connection.readHead()
            guard hasBody, ![204, 304].contains(response.status) else { return response }
            if response.headers["transfer-encoding"] == "chunked" {
                while let chunk = try connection.readChunk() { response.body += chunk }
            } else {
                let length = try connection.number(response.headers["content-length"], radix: 10)
                response.body = try connection.take(length)
            }
            return response
        }
    }

    /// Returns the head of the next response. Its body is read by ``chunk()``.
    func head() async throws -> Response {
        try await aside { try $0.readHead() }
    }

    /// Returns the next chunk of a body, or `nil` after the last one.
    func chunk() async throws -> [UInt8]? {
        try await aside { try $0.readChunk() }
    }

    /// Returns all bytes up to the end of the connection.
    func rest() async throws -> [UInt8] {
        try await aside { connection in
            while try connection.receive() {}
            return connection.pending.withLock { pending in
                defer { pending = [] }
                return pending
            }
        }
    }

    private func readHead() throws -> Response {
        let lines = String(decoding: try take(through: [13, 10, 13, 10]), as: UTF8.self)
            .components(separatedBy: "\r\n").dropLast(2)
        let first = lines.first?.split(separator: " ", maxSplits: 2) ?? []
        guard first.count >= 2, first[0] == "HTTP/1.1", let status = Int(first[1]) else {
            throw ResponseError(description: "the status line is \(lines.first ?? "missing")")
        }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { throw ResponseError(description: "the header is \(line)") }
            let name = parts[0].lowercased()
            guard headers[name] == nil else { throw ResponseError(description: "\(name) comes twice") }
            headers[name] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        return Response(status: status, headers: headers)
    }

    private func readChunk() throws -> [UInt8]? {
        let line = String(decoding: try take(through: [13, 10]).dropLast(2), as: UTF8.self)
        let length = try number(line, radix: 16)
        let chunk = try take(length)
        guard try take(2) == [13, 10] else { throw ResponseError(description: "a chunk does not end in CRLF") }
        return length == 0 ? nil : chunk
    }

    private func number(_ text: String?, radix: Int) throws -> Int {
        guard let text, let number = Int(text, radix: radix), number >= 0 else {
            throw ResponseError(description: "the length is \(text ?? "missing")")
        }
        return number
    }

    private func take(_ count: Int) throws -> [UInt8] {
        while pending.withLock({ $0.count < count }) {
            guard try receive() else { throw ResponseError(description: "the connection has ended") }
        }
        return pending.withLock { pending in
            defer { pending.removeFirst(count) }
            return Array(pending[..<count])
        }
    }

    private func take(through mark: [UInt8]) throws -> [UInt8] {
        while true {
            let end = pending.withLock { pending in
                pending.indices.dropLast(mark.count - 1).first { pending[$0...].starts(with: mark) }
            }
            if let end { return try take(end + mark.count) }
            guard try receive() else { throw ResponseError(description: "the connection has ended") }
        }
    }

    /// Adds the next bytes to ``pending``. Returns `false` at the end of the connection.
    private func receive() throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(socket, &buffer, buffer.count, 0)
        guard count > 0 else { return false }
        pending.withLock { $0 += buffer[..<count] }
        return true
    }
}
