import CSocketIO
import Foundation
import TestSupport
import Testing

@testable import SocketIO

extension TestCertificates {
    /// Returns the context of one side.
    func context(_ side: TLSSettings.Side, adjust: (inout TLSSettings) -> Void = { _ in }) throws -> OpenSSLContext {
        var settings = TLSSettings(side)
        settings.authorities = TLSFile(authority)
        if side == .server {
            settings.certificate = TLSFile(server.certificate)
            settings.key = TLSFile(server.key)
        }
        adjust(&settings)
        return try #require(try OpenSSL.shared.makeContext(settings, password: nil) as? OpenSSLContext)
    }
}

extension OpenSSLContext {
    /// Sets a number by SSL_CTX_ctrl, after the context was made.
    func set(_ command: Int32, _ number: Int) {
        _ = library.functions.pointee.SSL_CTX_ctrl(pointer, command, number, nil)
    }

    /// SSL_CTRL_SET_MAX_PROTO_VERSION.
    func limitToTLS12() { set(124, 0x0303) }
    /// SSL_CTRL_SET_MAX_SEND_FRAGMENT.
    func limitRecords(to bytes: Int) { set(52, bytes) }
}

/// A peer that can do what no engine of this package does, by direct calls of OpenSSL.
final class OpenSSLPeer {
    let functions: UnsafePointer<csocketio_openssl>
    let connection: UnsafeMutableRawPointer
    private let context: OpenSSLContext
    /// Whether the handshake is complete.
    private(set) var isOpen = false
    private let records = UnsafeMutablePointer<csocketio_records>.allocate(capacity: 1)

    init(_ context: OpenSSLContext) throws {
        self.context = context
        functions = context.library.functions
        records.initialize(to: csocketio_records())
        connection = try #require(functions.pointee.SSL_new(context.pointer))
        let stream = try #require(csocketio_new_record_stream(functions, records))
        functions.pointee.SSL_set_bio(connection, stream, stream)
        if context.settings.side == .client {
            functions.pointee.SSL_set_connect_state(connection)
        } else {
            functions.pointee.SSL_set_accept_state(connection)
        }
    }

    deinit {
        functions.pointee.SSL_free(connection)
        records.deallocate()
    }

    /// Calls OpenSSL with received bytes. Returns the bytes to send.
    func step(_ input: [UInt8] = [], _ call: (UnsafePointer<csocketio_openssl>, UnsafeMutableRawPointer) -> Int32)
        -> [UInt8]
    {
        var output = [UInt8](repeating: 0, count: 1 << 18)
        let count = input.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                records.pointee.input = input.baseAddress
                records.pointee.input_count = input.count
                records.pointee.output = output.baseAddress
                records.pointee.output_capacity = output.count
                records.pointee.output_count = 0
                functions.pointee.ERR_clear_error()
                _ = call(functions, connection)
                records.pointee.input_count = 0
                records.pointee.output_capacity = 0
                return records.pointee.output_count
            }
        }
        return Array(output.prefix(count))
    }

    func handshake(_ input: [UInt8] = []) -> [UInt8] {
        step(input) {
            let result = $0.pointee.SSL_do_handshake($1)
            isOpen = result == 1
            return result
        }
    }

    func write(_ bytes: [UInt8]) -> [UInt8] {
        step {
            var count = 0
            return $0.pointee.SSL_write_ex($1, bytes, bytes.count, &count)
        }
    }

    func read(_ input: [UInt8]) -> [UInt8] {
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        _ = step(input) {
            var count = 0
            while $0.pointee.SSL_read_ex($1, &buffer, buffer.count, &count) == 1 { received += buffer[..<count] }
            return 0
        }
        return received
    }
}
