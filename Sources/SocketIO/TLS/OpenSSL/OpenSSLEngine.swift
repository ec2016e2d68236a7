import CSocketIO

/// An SSL over a byte stream. Its only I/O are the records of the caller.
final class OpenSSLEngine: OpenSSLConnection, TLSEngine {
    private let records: UnsafeMutablePointer<csocketio_records>

    init?(_ context: OpenSSLContext, host: String?, port: UInt16) {
        guard let connection = Self.make(context) else { return nil }
        records = .allocate(capacity: 1)
        records.initialize(to: csocketio_records())
        super.init(context, connection, host: host, port: port)
        guard let stream = csocketio_new_record_stream(functions, records) else { return nil }
        functions.pointee.SSL_set_bio(connection, stream, stream)
        guard prepare() else { return nil }
    }

    deinit {
        // OpenSSL frees the stream later and does not use it any more.
        records.deallocate()
    }

    var pending: Int { Int(functions.pointee.SSL_pending(connection)) }

    func handshake(_ input: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        step(input, &output) { functions, connection, _ in functions.pointee.SSL_do_handshake(connection) }
    }

    func read(
        _ input: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        step(input, &output) { functions, connection, count in
            functions.pointee.SSL_read_ex(connection, target.baseAddress, target.count, &count)
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        step(UnsafeRawBufferPointer(start: nil, count: 0), &output) { functions, connection, count in
            functions.pointee.SSL_write_ex(connection, bytes.baseAddress, min(bytes.count, 16384), &count)
        }
    }

    func end(_ output: inout TLSOutput) -> TLSStep {
        let step = step(UnsafeRawBufferPointer(start: nil, count: 0), &output) { functions, connection, _ in
            // 0 means that close_notify was sent and none was received.
            functions.pointee.SSL_shutdown(connection) >= 0 ? 1 : -1
        }
        guard case .failed = step.end else { return step }
        // A connection that cannot be ended by close_notify ends without it.
        return TLSStep(.done)
    }

    var keepsBuffers: Bool { true }

    func rest() {
        _ = functions.pointee.SSL_free_buffers(connection)
    }

    @inline(__always)
    private func step(
        _ input: UnsafeRawBufferPointer,
        _ output: inout TLSOutput,
        _ call: (UnsafePointer<csocketio_openssl>, UnsafeMutableRawPointer, inout Int) -> Int32
    ) -> TLSStep {
        records.pointee.input = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
        records.pointee.input_count = input.count
        records.pointee.output = output.memory.baseAddress?.assumingMemoryBound(to: UInt8.self)
        records.pointee.output_capacity = output.memory.count
        records.pointee.output_count = output.count
        clearErrors()
        var count = 0
        let result = call(functions, connection, &count)
        output.count = records.pointee.output_count
        let consumed = input.count - records.pointee.input_count
        records.pointee.input_count = 0
        records.pointee.output_capacity = 0
        return step(result, consumed: consumed, count: count)
    }
}
