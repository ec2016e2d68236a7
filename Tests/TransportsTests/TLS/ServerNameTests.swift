import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// The name that a client sends in its ClientHello (RFC 6066, section 3).
@Suite("The server name in the handshake of a client", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct ServerNameTests {
    /// The host of the URL, the option server-name, and the name that is sent.
    static let names: [(String, String?, String?)] = [
        ("127.0.0.1", "a.example", "a.example"), ("127.0.0.1", "a.example.", "a.example"),
        ("localhost", "a.example", "a.example"), ("localhost", nil, "localhost"),
        ("127.0.0.1", nil, nil), ("localhost", "127.0.0.1", nil), ("127.0.0.1", "::1", nil),
        ("127.0.0.1", "fe80::1%eth0", nil),
    ]

    @Test("A client sends the name of its server, and no address", arguments: names)
    func name(host: String, option: String?, sent: String?) async throws {
        let hello = try await firstRecord(host, option)
        let seen = try serverName(in: hello)
        #expect(seen == sent)
    }

    /// Returns the first record of a client that connects to this host with this option.
    private func firstRecord(_ host: String, _ name: String?) async throws -> [UInt8] {
        let listener = try RawListener()
        defer { listener.stop() }
        let (records, found) = AsyncStream.makeStream(of: [UInt8].self)
        listener.serve { _, connection in
            found.yield(readRecord(from: connection))
            close(connection)
        }
        let options = name.map { [Endpoint.Option(name: "server-name", value: $0)] } ?? []
        let endpoint = Endpoint(scheme: "tls", host: host, port: listener.port, path: "", options: options)
        // The server ends the connection after the first record.
        await #expect(throws: TransportError.self) {
            _ = try await TransportRegistry.standard.connect(endpoint, timeout: .seconds(60))
        }
        var iterator = records.makeAsyncIterator()
        return try #require(await iterator.next())
    }
}

/// Reads one record of TLS, or less if the connection ends before.
private func readRecord(from connection: Int32) -> [UInt8] {
    var seen: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while seen.count < 5 || seen.count < 5 + (Int(seen[3]) << 8 | Int(seen[4])) {
        let count = recv(connection, &buffer, buffer.count, 0)
        guard count > 0 else { break }
        seen += buffer[..<count]
    }
    return seen
}

/// Returns the name in the extension server_name of a ClientHello (RFC 8446, section 4.1.2), or `nil` without one.
private func serverName(in record: [UInt8]) throws -> String? {
    var fields = TLSFields(record[...])
    let recordType = try fields.number(1)
    _ = try fields.bytes(2)
    var message = try fields.field(2)
    let messageType = try message.number(1)
    try #require(recordType == 22 && messageType == 1, "this is no ClientHello")
    var hello = try message.field(3)
    _ = try hello.bytes(2 + 32)
    // The session, the ciphers and the compression methods.
    for size in [1, 2, 1] { _ = try hello.field(size) }
    var extensions = try hello.field(2)
    while !extensions.isEmpty {
        let type = try extensions.number(2)
        var content = try extensions.field(2)
        guard type == 0 else { continue }
        var list = try content.field(2)
        let kind = try list.number(1)
        let name = try list.field(2)
        let isOnlyName = kind == 0 && list.isEmpty && content.isEmpty
        try #require(isOnlyName, "the extension has more than one name of a host")
        return String(decoding: name.rest, as: UTF8.self)
    }
    return nil
}

/// The fields of a message of TLS. Each read checks its length.
private struct TLSFields {
    struct TooShort: Error {}

    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    var isEmpty: Bool { rest.isEmpty }

    mutating func bytes(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count <= rest.count else { throw TooShort() }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func number(_ size: Int) throws -> Int {
        try bytes(size).reduce(0) { $0 << 8 | Int($1) }
    }

    /// A field with its length in `size` bytes before it.
    mutating func field(_ size: Int) throws -> TLSFields {
        let count = try number(size)
        return TLSFields(try bytes(count))
    }
}
