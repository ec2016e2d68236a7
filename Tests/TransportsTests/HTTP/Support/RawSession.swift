import Foundation
import Testing
import TransportAPI

@testable import Protocols

/// A session over HTTP that a test drives request by request.
// Unchecked, because a test calls it from one task at a time.
final class RawSession: @unchecked Sendable {
    let port: UInt16
    let path: String
    let token: String
    /// The largest number of unacknowledged bytes.
    let window: Int
    /// The headers of every request.
    let headers: [String]
    /// The connection of the requests that send.
    let lane: RawHTTPConnection
    /// How many bytes of the client's stream were sent and answered.
    var sent = 0
    /// How many bytes of the server's stream were read.
    var received = 0

    /// Opens a session.
    init(
        port: UInt16,
        path: String = "/",
        query: String = "",
        headers: [String] = [],
        lane: RawHTTPConnection? = nil
    ) async throws {
        (self.port, self.path, self.headers) = (port, path, headers)
        self.lane = try lane ?? RawHTTPConnection(port: port)
        let response = try await self.lane.ask("POST", "\(path)?\(query)im-open=1", headers)
        try #require(response.status == 201)
        let answer = try #require(FormQuery(response.text))
        token = try #require(answer["session"])
        window = Int(try #require(answer.number("window")))
        #expect(answer.number("hold") != nil && response.headers["cache-control"] == "no-store")
    }

    /// The target of a request that receives.
    func receiving(_ delivery: SessionRequest.Delivery, from offset: Int? = nil) -> String {
        "\(path)?im-session=\(token)&im-receive=\(delivery.rawValue)&im-from=\(offset ?? received)"
    }

    /// The target of a request that sends.
    func sending(at offset: Int, received: Int? = nil, isLast: Bool = false) -> String {
        let end = isLast ? "&im-end=1" : ""
        return "\(path)?im-session=\(token)&im-at=\(offset)&im-received=\(received ?? self.received)\(end)"
    }

    /// A message in framed TCP, which is text if it is UTF-8.
    static func frame(_ bytes: [UInt8]) -> [UInt8] {
        let isText = String(validating: bytes, as: UTF8.self) != nil
        let word = UInt32(bytes.count) | (isText ? FramedTCPCore.textBit : 0)
        return withUnsafeBytes(of: word.bigEndian) { $0 + bytes }
    }

    /// Sends messages.
    func post(_ texts: String...) async throws {
        try await post(bytes: texts.flatMap { Self.frame(Array($0.utf8)) })
    }

    /// Sends bytes of the stream.
    func post(bytes: [UInt8], isLast: Bool = false) async throws {
        let response = try await lane.ask("POST", sending(at: sent, isLast: isLast), headers, bytes)
        try #require(response.status == 204)
        sent += bytes.count
    }

    /// Sends a close frame and the end of the stream.
    func close() async throws {
        try await post(bytes: Self.closeFrame, isLast: true)
        lane.hangUp()
    }

    /// The close frame of a client.
    static let closeFrame: [UInt8] = {
        var context = CoreContext(random: .seeded(1))
        var nothing = ByteBuffer()
        guard var core = try? FramedTCPCore(), (try? core.next(&nothing, &context)) != nil else { return [] }
        core.close(.user, &context)
        return context.output.withUnsafeReadableBytes { Array($0) }
    }()

    /// Polls until `count` bytes of the server's stream were read, and returns them.
    func poll(_ count: Int, _ delivery: SessionRequest.Delivery = .longPoll) async throws -> [UInt8] {
        let connection = try RawHTTPConnection(port: port)
        var bytes: [UInt8] = []
        while bytes.count < count {
            let response = try await connection.ask("GET", receiving(delivery), headers)
            try #require(response.status == 200 || response.status == 204)
            bytes += response.body
            received += response.body.count
        }
        return bytes
    }

    /// Begins an event stream.
    func events(from offset: Int? = nil, lastEvent: Int? = nil) async throws -> RawEvents {
        let connection = try RawHTTPConnection(port: port)
        let resumed = lastEvent.map { ["Last-Event-ID: \($0)"] } ?? []
        let request = RawHTTPConnection.request("GET", receiving(.events, from: offset), headers + resumed)
        try await connection.send(request)
        return try await RawEvents(connection)
    }
}

/// The events of an event stream, read from its chunks.
final class RawEvents {
    let connection: RawHTTPConnection
    let head: RawHTTPConnection.Response
    private var reader = EventStreamReader(maximumLine: 1 << 20, maximumEvent: 1 << 20)
    /// The offset in the id of the last event.
    private(set) var offset = 0

    init(_ connection: RawHTTPConnection) async throws {
        self.connection = connection
        head = try await connection.head()
        try #require(head.status == 200 && head.headers["content-type"] == "text/event-stream")
        let first = try #require(try await connection.chunk())
        #expect(first.starts(with: ": stream\n\n".utf8))
        reader.append(first)
    }

    /// Returns the next event, or `nil` at the end of the response.
    func next() async throws -> StreamEvent? {
        while true {
            if let event = try reader.next() {
                offset = try #require(Int(event.id))
                return try #require(StreamEvent(event))
            }
            guard let chunk = try await connection.chunk() else { return nil }
            reader.append(chunk)
        }
    }

    /// Reads events up to an offset of the stream, and returns the bytes for which they stand.
    func bytes(upTo end: Int) async throws -> [UInt8] {
        var stream = ByteBuffer()
        while offset < end {
            let event = try #require(try await next())
            event.append(to: &stream)
        }
        return stream.withUnsafeReadableBytes { Array($0) }
    }

    /// Returns the bytes of the next event, which must be no text.
    func piece() async throws -> [UInt8] {
        guard case .bytes(let bytes) = try #require(try await next()) else {
            Issue.record("the event is no piece of the stream")
            return []
        }
        return bytes
    }

    /// Returns the next event, which must be a text.
    func text() async throws -> String {
        guard case .text(let message) = try #require(try await next()) else {
            Issue.record("the event is no text")
            return ""
        }
        return String(decoding: message, as: UTF8.self)
    }
}
