import TransportAPI

// Datagrams of an open session.

extension UDPCore {
    mutating func plainMessage(_ input: borrowing ByteBuffer, _ now: Instant) -> CoreEvent? {
        guard input.count <= configuration.maximumPayloadSize else { return nil }
        timers.lastHeard = now
        return input.bytes(at: 0, count: input.count).map { .message(Payload($0)) }
    }

    mutating func readOpen(
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let kind = Datagram.kind(of: input), let identifier = Datagram.identifier(of: input) else { return nil }
        guard identifier == connectionID else {
            // Our accept was lost, and the client asks for it again.
            if kind == .confirm, role == .server, identifier == nonce { writeAccept(&context) }
            return nil
        }
        if kind == .data { return reliable == nil ? message(input, &context) : nil }
        if kind == .packet {
            try readPacket(input, &context)
            return nil
        }
        return try control(kind, input, &context)
    }

    private mutating func message(_ input: borrowing ByteBuffer, _ context: inout CoreContext) -> CoreEvent? {
        let size = input.count - Datagram.dataHeaderSize
        guard size <= configuration.maximumPayloadSize,
            let sequence = input.integer(at: Datagram.identifiedSize, as: UInt32.self)
        else { return nil }
        timers.lastHeard = context.now
        switch window.insert(sequence) {
        case .new: break
        case .late: context.counters.reordered &+= 1
        case .duplicate:
            context.counters.duplicates &+= 1
            return nil
        }
        return input.bytes(at: Datagram.dataHeaderSize, count: size).map { .message(Payload($0)) }
    }

    private mutating func control(
        _ kind: Datagram.Kind,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch kind {
        case .ping:
            guard let token = Datagram.number(of: input) else { return nil }
            heard(&context)
            context.counters.demands &+= 1
            if reliable != nil, reliable?.pingHeard == token {
                context.counters.repeatedBytes &+= UInt64(input.count)
            }
            reliable?.pingHeard = token
            write(.pong, connectionID, token, &context)
            return nil
        case .pong:
            guard let token = Datagram.number(of: input) else { return nil }
            heard(&context)
            return pong(token, &context)
        case .bye:
            let said = input.withUnsafeReadableBytes {
                Goodbye.reason(UnsafeRawBufferPointer(rebasing: $0.dropFirst(Datagram.identifiedSize)))
            }
            guard let said else { return nil }
            heard(&context)
            guard reliable == nil else {
                reliable?.farewell = said
                return nil
            }
            reason = said
            phase = .done
            return .closed(said)
        case .gone:
            guard role == .client else { return nil }
            heard(&context)
            phase = .done
            throw TransportError(.connectionReset, .open, "the server does not know this session any more")
        case .hello, .retry, .confirm, .accept, .welcome, .refusal, .data, .packet, .busy:
            return nil
        }
    }

    /// Pings may be lost: the answer to one also stands for the unanswered ones before it, so that each gets its `.pong`, but
    /// for those that nobody waits for.
    private mutating func pong(_ token: UInt64, _ context: inout CoreContext) -> CoreEvent? {
        guard token > pongsReceived, token <= pingsSent else {
            context.counters.demands &+= 1
            return nil
        }
        pongsToReport = token - pongsReceived
        pongsReceived = token
        if token == pingsSent { reliable?.ponged() }
        if !unaskedPings.isEmpty {
            let known = unaskedPings.count
            unaskedPings.removeAll { $0 <= token }
            pongsToReport -= UInt64(known - unaskedPings.count)
        }
        guard pongsToReport > 0 else { return nil }
        pongsToReport -= 1
        return .pong
    }

    private mutating func heard(_ context: inout CoreContext) {
        timers.lastHeard = context.now
        context.counters.controlFrames &+= 1
    }
}
