import CSocketIO

/// An SSL over a byte stream. Its only I/O are the records of the caller.
final class OpenSSLEngine: OpenSSLConnection, TLSEngine {
    /// The memory of OpenSSL during a handshake without the messages of the peer that are longer than this: its state, keys and
    /// the buffers of two records.
    private static let handshakeMemory = 64 << 10

    private let records: UnsafeMutablePointer<csocketio_records>
    private var hellos = ClientHelloLengths()

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

    var ownMemory: Int { description == nil ? Self.handshakeMemory + hellos.longest : peerMemory }

    func handshake(_ input: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if context.settings.side == .server { hellos.read(input) }
        return step(input, &output) { functions, connection, _ in functions.pointee.SSL_do_handshake(connection) }
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

/// The announced length of the ClientHellos in the records of a handshake. OpenSSL reserves it at once, up to 131,396 bytes,
/// and keeps it until the end of the handshake. A client sends another ClientHello if the server requests one.
private struct ClientHelloLengths {
    /// The longest message that OpenSSL accepts here (CLIENT_HELLO_MAX_LENGTH).
    private static let mostReserved = 131_396
    /// SSL3_RT_HANDSHAKE, and the number of a ClientHello (RFC 8446, sections 5.1 and 4).
    private static let (handshake, clientHello): (UInt8, UInt32) = (22, 1)

    private(set) var longest = 0
    /// The bytes of a header so far, and their number.
    private var header: UInt32 = 0
    private var headerCount = 0
    /// How much of the present message is still to come.
    private var rest = 0

    mutating func read(_ record: UnsafeRawBufferPointer) {
        guard record.first == Self.handshake else { return }
        var bytes = record.dropFirst(5)
        while !bytes.isEmpty {
            let skipped = min(rest, bytes.count)
            rest -= skipped
            bytes = bytes.dropFirst(skipped)
            guard rest == 0, let byte = bytes.popFirst() else { return }
            header = header << 8 | UInt32(byte)
            headerCount += 1
            guard headerCount == 4 else { continue }
            rest = Int(header & 0xff_ffff)
            // An encrypted message has no length here. It is longer than its record, and none follows it.
            if header >> 24 == Self.clientHello { longest = max(longest, min(rest, Self.mostReserved)) }
            (header, headerCount) = (0, 0)
        }
    }
}
