import Codecs
import TransportAPI

// Frames out (RFC 6455, sections 5.2 to 5.5): nothing goes out before the handshake nor after the close frame.
extension WebSocketCore {
    /// Writes one message, as text or binary by its kind, in one frame or in fragments, compressed if that was agreed on.
    ///
    /// - Throws: `.unsupported` if the payload has a topic, `.messageTooLarge`, `.invalidText` if it is text but not UTF-8;
    ///   `.wouldBlock` before the link is open, and the reason for its end after that.
    public mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard phase == .open else { throw notOpen }
        try admit(payload)
        let opcode: Opcode = payload.kind == .text ? .text : .binary
        if deflation != nil, let compressed = payload.bytes.withUnsafeBytes({ deflation?.compress($0) }) {
            compressed.withUnsafeBytes { write($0, opcode, FrameHeader.compressed, &context) }
        } else {
            payload.bytes.withUnsafeBytes { write($0, opcode, 0, &context) }
        }
        return .written
    }

    /// `mutating`, because a closure that calls it else takes a copy of the core along.
    @inline(__always)
    private mutating func write(
        _ bytes: UnsafeRawBufferPointer,
        _ opcode: Opcode,
        _ reservedBits: UInt8,
        _ context: inout CoreContext
    ) {
        if let size = configuration.fragmentSize, bytes.count > size {
            writeFragments(bytes, of: size, opcode, reservedBits, &context)
        } else {
            FrameWriter.write(
                opcode,
                reservedBits: reservedBits,
                bytes,
                maskKey: maskKey(&context),
                to: &context.output
            )
        }
    }

    /// Writes a ping whose payload is its number, so that its pong is told from any other.
    public mutating func ping(_ context: inout CoreContext) throws(TransportError) {
        guard phase == .open else { throw notOpen }
        writeControl(.ping, liveness.nextPing(), &context)
    }

    /// Begins the closing handshake (section 7.1.2). Messages that still arrive after that are dropped.
    ///
    /// The close frame carries the reason's code, or the code that fits who ended the link, and as much of the reason's text
    /// as fits: 123 bytes.
    public mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .idle, .handshaking:
            ending = reason
            phase = .ending
            phaseDeadline = nil
        case .open:
            ending = reason
            phase = .closing
            phaseDeadline = context.now.advanced(by: configuration.closeTimeout)
            dropMessages()
            liveness.dropDelayedPong()
            writeClose(CloseFrame(code: CloseCode.forReason(reason), text: reason.text), &context)
        case .closing, .awaitingEnd, .ending, .ended:
            break
        }
    }

    private func admit(_ payload: Payload) throws(TransportError) {
        guard payload.topic == nil, !payload.isRetained else {
            throw TransportError(.unsupported, .open, "WebSocket messages have no topic and are not retained")
        }
        guard payload.bytes.count <= configuration.maximumMessageSize else {
            throw TransportError(
                .messageTooLarge,
                .open,
                "a message of \(payload.bytes.count) bytes is larger than the limit of \(configuration.maximumMessageSize)"
            )
        }
        guard payload.kind == .binary || payload.bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
            throw TransportError(.invalidText, .open, "the text to send is not UTF-8")
        }
    }

    private var notOpen: TransportError {
        switch phase {
        case .idle, .handshaking:
            TransportError(.wouldBlock, .handshake, "the handshake is not complete")
        case .open, .closing, .awaitingEnd, .ending, .ended:
            ending.error
                ?? TransportError(
                    ending.initiator == .user ? .closedByUser : .closedByPeer,
                    .closing,
                    "the link is closed or about to be",
                    detail: ending.code.map(Int.init)
                )
        }
    }

    private func writeFragments(
        _ bytes: UnsafeRawBufferPointer,
        of size: Int,
        _ opcode: Opcode,
        _ reservedBits: UInt8,
        _ context: inout CoreContext
    ) {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            FrameWriter.write(
                start == 0 ? opcode : .continuation,
                isFinal: end == bytes.count,
                reservedBits: start == 0 ? reservedBits : 0,
                UnsafeRawBufferPointer(rebasing: bytes[start..<end]),
                maskKey: maskKey(&context),
                to: &context.output
            )
            start = end
        }
    }

    func writeClose(_ frame: CloseFrame, _ context: inout CoreContext) {
        writeControl(.close, frame.payload, &context)
    }

    func writeControl(_ opcode: Opcode, _ payload: [UInt8], _ context: inout CoreContext) {
        context.counters.controlFrames &+= 1
        payload.withUnsafeBytes { bytes in
            FrameWriter.write(opcode, bytes, maskKey: maskKey(&context), to: &context.output)
        }
    }

    /// A fresh key for each frame of a client.
    @inline(__always)
    private func maskKey(_ context: inout CoreContext) -> UInt32? {
        role == .client ? UInt32(truncatingIfNeeded: context.random.next()) : nil
    }
}
