import CSocketIO
import Primitives

// Constants of openssl/ssl.h.
private let setMTU: Int32 = 17
private let setMaximumFragment: Int32 = 52
private let handleTimeout: Int32 = 74

/// An SSL over datagrams (DTLS 1.2, RFC 6347). Its only I/O are the datagrams of the caller.
///
/// OpenSSL keeps the two timers and the state of a handshake with datagrams that are lost, reordered or repeated
/// (section 4.2.4). It drops records that are forged, broken, repeated or too old (sections 4.1.2.6 and 4.1.2.7).
final class OpenSSLDatagramEngine: OpenSSLConnection, DatagramTLSEngine {
    private let datagrams: UnsafeMutablePointer<csocketio_datagrams>
    /// Whether the ClientHello with the cookie is still to come, at a server.
    private var awaitsHello: Bool
    private var timeouts = 0

    init?(_ context: OpenSSLContext, host: String?, port: UInt16, largest: Int) {
        guard let connection = Self.make(context) else { return nil }
        datagrams = .allocate(capacity: 1)
        datagrams.initialize(to: csocketio_datagrams())
        awaitsHello = context.settings.side == .server
        super.init(context, connection, host: host, port: port)
        guard let stream = csocketio_new_datagram_stream(functions, datagrams) else { return nil }
        functions.pointee.SSL_set_bio(connection, stream, stream)
        csocketio_set_datagram_timer(functions, connection)
        _ = functions.pointee.SSL_ctrl(connection, setMTU, DTLS.handshakeSize, nil)
        // The memory for records that are written is as large as this, instead of 16 KiB.
        let fragment = min(max(largest, DTLS.handshakeSize), DTLS.largestRecord)
        _ = functions.pointee.SSL_ctrl(connection, setMaximumFragment, fragment, nil)
        guard prepare() else { return nil }
    }

    deinit {
        // OpenSSL frees the stream later and does not use it any more.
        datagrams.deallocate()
    }

    func handshake(_ datagram: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if awaitsHello {
            var isTaken = false
            _ = use(datagram, &output) { functions, connection, _ in
                isTaken = csocketio_take_first_hello(functions, connection) == 1
                return 1
            }
            guard isTaken else {
                let reason = functions.pointee.ERR_peek_error()
                return reason == 0 ? TLSStep(.needsInput) : TLSStep(.failed(failure()))
            }
            awaitsHello = false
            return step(UnsafeRawBufferPointer(start: nil, count: 0), &output) { functions, connection, _ in
                functions.pointee.SSL_do_handshake(connection)
            }
        }
        return step(datagram, &output) { functions, connection, _ in functions.pointee.SSL_do_handshake(connection) }
    }

    func read(
        _ datagram: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        step(datagram, &output) { functions, connection, count in
            functions.pointee.SSL_read_ex(connection, target.baseAddress, target.count, &count)
        }
    }

    func write(_ message: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        step(UnsafeRawBufferPointer(start: nil, count: 0), &output) { functions, connection, count in
            functions.pointee.SSL_write_ex(connection, message.baseAddress, message.count, &count)
        }
    }

    func end(_ output: inout TLSOutput) {
        _ = step(UnsafeRawBufferPointer(start: nil, count: 0), &output) { functions, connection, _ in
            functions.pointee.SSL_shutdown(connection) >= 0 ? 1 : -1
        }
    }

    // MARK: Time

    var timeout: Int64? {
        let left = csocketio_datagram_timeout(functions, connection)
        return left < 0 ? nil : left
    }

    func timeoutReached(_ output: inout TLSOutput) -> TLSStep {
        timeouts += 1
        // A path that carries only smaller datagrams may have lost all of them.
        if timeouts == DTLS.timeoutsBeforeSmaller { shrink() }
        var result: Int32 = 0
        _ = use(UnsafeRawBufferPointer(start: nil, count: 0), &output) { functions, connection, _ in
            result = Int32(truncatingIfNeeded: functions.pointee.SSL_ctrl(connection, handleTimeout, 0, nil))
            return 1
        }
        return result < 0 ? TLSStep(.failed(failure())) : TLSStep(.needsInput)
    }

    func shrink() {
        _ = functions.pointee.SSL_ctrl(connection, setMTU, DTLS.smallestHandshakeSize, nil)
    }

    // MARK: Calls

    private func step(
        _ input: UnsafeRawBufferPointer,
        _ output: inout TLSOutput,
        _ call: (UnsafePointer<csocketio_openssl>, UnsafeMutableRawPointer, inout Int) -> Int32
    ) -> TLSStep {
        let (result, count) = use(input, &output, call)
        return step(result, consumed: input.count, count: count)
    }

    private func use(
        _ input: UnsafeRawBufferPointer,
        _ output: inout TLSOutput,
        _ call: (UnsafePointer<csocketio_openssl>, UnsafeMutableRawPointer, inout Int) -> Int32
    ) -> (result: Int32, count: Int) {
        datagrams.pointee.input = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
        datagrams.pointee.input_count = input.count
        datagrams.pointee.output = output.memory.baseAddress?.assumingMemoryBound(to: UInt8.self)
        datagrams.pointee.output_capacity = output.memory.count
        datagrams.pointee.output_count = output.count
        clearErrors()
        var count = 0
        let result = call(functions, connection, &count)
        output.count = datagrams.pointee.output_count
        datagrams.pointee.input_count = 0
        datagrams.pointee.output_capacity = 0
        datagrams.pointee.output_count = 0
        return (result, count)
    }
}
