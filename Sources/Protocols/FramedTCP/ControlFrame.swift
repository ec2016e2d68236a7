import TransportAPI

/// A control frame of this package's TCP format, without the 32-bit word before it (Docs/reference/wire-formats.md).
enum ControlFrame: Equatable {
    /// Requests a pong with the same token.
    case ping(UInt64)
    /// Answers the ping with this token.
    case pong(UInt64)
    /// Closes the connection.
    case close(CloseReason)

    /// The longest body in bytes. A longer one is refused before it is buffered.
    static let maximumSize = 125

    /// Reads a body. Returns `nil` if it is malformed.
    init?(_ body: UnsafeRawBufferPointer) {
        switch (body.first, body.count) {
        case (1, 9): self = .ping(UInt64(bigEndian: body.loadUnaligned(fromByteOffset: 1, as: UInt64.self)))
        case (2, 9): self = .pong(UInt64(bigEndian: body.loadUnaligned(fromByteOffset: 1, as: UInt64.self)))
        case (3, _):
            guard let reason = ClosePayload.reason(UnsafeRawBufferPointer(rebasing: body.dropFirst())) else {
                return nil
            }
            self = .close(reason)
        default: return nil
        }
    }

    /// Appends the 32-bit word and the body.
    func write(to output: inout ByteBuffer) {
        switch self {
        case .ping(let token): Self.write(type: 1, token: token, to: &output)
        case .pong(let token): Self.write(type: 2, token: token, to: &output)
        case .close(let reason):
            let text = ClosePayload.shortened(reason.text)
            output.append(integer: 0x8000_0003 + UInt32(text.utf8.count))
            output.append(3)
            output.append(integer: reason.code ?? ClosePayload.normal)
            output.append(utf8: text)
        }
    }

    private static func write(type: UInt8, token: UInt64, to output: inout ByteBuffer) {
        output.append(integer: 0x8000_0009 as UInt32)
        output.append(type)
        output.append(integer: token)
    }
}

extension FramedTCPCore {
    mutating func write(_ frame: ControlFrame, _ context: inout CoreContext) {
        frame.write(to: &context.output)
        context.counters.controlFrames &+= 1
    }

    mutating func handle(
        _ frame: ControlFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        context.counters.controlFrames &+= 1
        switch frame {
        case .ping(let token):
            context.counters.controlWork &+= 1
            // Nothing may follow this side's close frame.
            if phase == .open { write(.pong(token), &context) }
            return nil
        case .pong(let token):
            guard token > 0, token <= lastPing else {
                throw violation("a pong without a ping", &context)
            }
            return .pong(token)
        case .close(let theirs):
            if phase == .open {
                reason = theirs
                write(.close(CloseReason(.peer, code: theirs.code)), &context)
            }
            end(.done)
            return .closed(reason)
        }
    }

    /// Writes a close frame with the violation, ends the connection, and returns the error to throw.
    mutating func violation(_ what: String, _ context: inout CoreContext) -> TransportError {
        let error = TransportError(.protocolViolation, .open, "the peer sent \(what)")
        fail(ClosePayload.protocolError, error, &context)
        return error
    }

    mutating func fail(_ code: UInt16, _ error: TransportError, _ context: inout CoreContext) {
        if phase == .open { write(.close(CloseReason(.protocolError, code: code, text: error.reason)), &context) }
        reason = CloseReason(error)
        end(.done)
    }
}
