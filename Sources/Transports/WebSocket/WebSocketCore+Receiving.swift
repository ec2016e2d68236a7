import TransportAPI

// Frames in: messages are reported, control frames answered (RFC 6455, section 5.5).
extension WebSocketCore {
    mutating func readFrames(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if liveness.pongDue != nil { writeDelayedPong(&context) }
        if liveness.takeAnswer() { return .pong }
        let incoming: FrameReader.Incoming?
        do throws(TransportError) {
            incoming = try reader.next(&input)
        } catch {
            return try fail(error, &context)
        }
        context.counters.demands &+= reader.takeEmptyFrames()
        switch incoming {
        case nil: return nil
        case .message(let payload): return .message(payload)
        case .part: return .progress
        case .control(let opcode, let payload):
            context.counters.controlFrames &+= 1
            switch opcode {
            case .ping:
                context.counters.demands &+= 1
                answerPing(payload, &context)
            case .pong: if !liveness.noteAnswer(payload) { context.counters.demands &+= 1 }
            default: return try readClose(payload, &input, &context)
            }
            return liveness.takeAnswer() ? .pong : .progress
        }
    }

    /// The far side says goodbye first, or answers ours.
    private mutating func readClose(
        _ payload: [UInt8],
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let frame: CloseFrame
        do throws(TransportError) {
            frame = try CloseFrame(payload)
        } catch {
            return try fail(error, &context)
        }
        if phase == .open {
            ending = frame.reason
            phaseDeadline = context.now.advanced(by: configuration.closeTimeout)
            writeClose(CloseFrame(code: frame.code), &context)
        }
        liveness = Liveness()
        dropMessages()
        input.removeAll()
        guard role == .server else {
            phase = .awaitingEnd
            return nil
        }
        return closed()
    }

    /// Tells the far side what it did wrong, and ends the link. After our own close frame there is nothing to tell, and what
    /// the link is said to have ended for remains the reason for that.
    private mutating func fail(
        _ error: TransportError,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent {
        guard phase == .open else { return closed() }
        writeClose(CloseFrame(code: CloseCode.forError(error), text: error.reason), &context)
        throw end(error)
    }

    /// Answers a ping at once; while the far side reads too little of our output, only the last one, and later.
    private mutating func answerPing(_ payload: [UInt8], _ context: inout CoreContext) {
        guard phase == .open else { return }
        if context.output.count < Liveness.outputBound {
            liveness.dropDelayedPong()
            writeControl(.pong, payload, &context)
        } else {
            liveness.delayPong(payload, now: context.now)
        }
    }

    /// Writes the pong that was put off, once there is room; puts it off again while there is none.
    mutating func writeDelayedPong(_ context: inout CoreContext) {
        guard let payload = liveness.delayedPong else { return }
        if context.output.count < Liveness.outputBound {
            liveness.dropDelayedPong()
            writeControl(.pong, payload, &context)
        } else if let due = liveness.pongDue, due <= context.now {
            liveness.delayPong(payload, now: context.now)
        }
    }
}
