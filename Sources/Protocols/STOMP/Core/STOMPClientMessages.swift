import Primitives
import TransportAPI

// The messages that a client receives.
extension STOMPClientCore {
    /// A received message that is confirmed when its receiver has processed it.
    struct Unconfirmed: Sendable {
        /// What ACK calls it.
        var name: String
        /// Whether the message was passed over. No receiver processes it, so it is confirmed right after those before
        /// it.
        var isDiscarded = false
    }

    mutating func receiveMessage(
        _ frame: STOMPFrame,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let destination = frame["destination"] else { throw violation("MESSAGE has no destination") }
        guard frame["message-id"] != nil else { throw violation("MESSAGE has no message-id") }
        let subscription = try subscription(of: frame)
        // A connection that this side has closed before it was open reports no message.
        if case .closing = phase, reader.phase != .open { return nil }
        if confirmsReceipt {
            guard let name = frame["ack"] else {
                throw violation("MESSAGE has no ack, but its subscription has mode \(configuration.ack.rawValue)")
            }
            unconfirmed.append(Unconfirmed(name: name, isDiscarded: !frame.isWhole))
            unconfirmedBytes += name.utf8.count
        }
        let event: CoreEvent
        if frame.isWhole {
            event = .message(payload(frame, destination, subscription))
        } else {
            confirmDiscarded(&context)
            event = .discarded(DiscardedMessage(topic: destination, size: frame.bodySize))
        }
        guard case .subscribing = phase else { return event }
        deferred.append(event)
        return opened()
    }

    private func subscription(of frame: STOMPFrame) throws(TransportError) -> UInt32 {
        guard let name = frame["subscription"] else { throw violation("MESSAGE has no subscription") }
        // Only the digits that the client wrote are its id.
        guard let id = UInt32(name), subscriptions[id] != nil, "\(id)".utf8.elementsEqual(name.utf8) else {
            let seen = String(excerptOf: name.utf8)
            throw violation("MESSAGE is for subscription '\(seen)', but there is no such subscription")
        }
        return id
    }

    private func payload(_ frame: STOMPFrame, _ destination: String, _ subscription: UInt32) -> Payload {
        var payload = Payload(
            frame.body,
            kind: frame.isText ? .text : .binary,
            topic: destination,
            qos: confirmsReceipt ? .atLeastOnce : .atMostOnce,
            // The specification has no such header, but RabbitMQ and ActiveMQ agree on one.
            isDuplicate: frame["redelivered"] == "true"
        )
        payload.subscription = number(of: subscription)
        return payload
    }

    // MARK: Confirmation

    package mutating func confirmReceipt(_ context: inout CoreContext) {
        guard confirmOldest(&context) else { return }
        confirmDiscarded(&context)
    }

    /// Acknowledges the messages that were passed over and have none to be confirmed before them. Otherwise a broker
    /// would send them again forever.
    private mutating func confirmDiscarded(_ context: inout CoreContext) {
        while unconfirmed.first?.isDiscarded == true { _ = confirmOldest(&context) }
    }

    /// Messages are confirmed in the order of their arrival. So the cumulative ACK of ``STOMPAckMode/client`` counts
    /// for no message that is not confirmed.
    private mutating func confirmOldest(_ context: inout CoreContext) -> Bool {
        guard let message = unconfirmed.popFirst() else { return false }
        unconfirmedBytes -= message.name.utf8.count
        switch phase {
        case .open, .subscribing: write(STOMPFrame(.ack, [STOMPHeader("id", message.name)]), &context)
        // After DISCONNECT no frame may follow. The broker sends the message again, over the next connection.
        case .idle, .connecting, .closing, .failed, .ending, .closed: break
        }
        return true
    }
}

// The messages that a client sends.
extension STOMPClientCore {
    /// Sends a message to the payload's topic. If it has none, to the configured destination. At
    /// ``Payload/QoS/atLeastOnce`` the broker is asked for a receipt.
    ///
    /// - Throws: `.unsupported` for a retained message and for one at ``Payload/QoS/exactlyOnce``, which STOMP does not
    ///   have.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        let wantsReceipt = try wantsReceipt(payload)
        guard let destination = payload.topic ?? configuration.destination else { throw Self.noDestination }
        if payload.topic != nil { try STOMPCheck.destination(destination, "topic") }
        try checkOpen()
        guard payload.bytes.count <= configuration.limits.body else { throw tooLarge(payload.bytes.count) }
        guard !isHeld, !wantsReceipt || receipts.hasRoom else { return .blocked }
        context.output.reserve(payload.bytes.count.addingSaturated(256))
        STOMPFrameWriter.begin(.send, into: &context.output)
        STOMPFrameWriter.write("destination", destination, into: &context.output)
        context.output.append(contentsOf: payload.kind == .text ? headOfTexts : headOfOthers)
        if wantsReceipt {
            let receipt = receipts.begin(.send(id), now: context.now)
            STOMPFrameWriter.write("receipt", "\(receipt)", into: &context.output)
        }
        STOMPFrameWriter.end(payload.bytes, into: &context.output)
        times.lastSent = context.now
        return wantsReceipt ? .awaitingAcknowledgement : .written
    }

    private func wantsReceipt(_ payload: Payload) throws(TransportError) -> Bool {
        guard !payload.isRetained else {
            throw TransportError(.unsupported, .open, "STOMP has no retained messages: send it without")
        }
        switch payload.qos {
        case nil: return configuration.requestsReceipts
        case .atMostOnce?: return false
        case .atLeastOnce?: return true
        case .exactlyOnce?: throw TransportError(.unsupported, .open, "STOMP has no QoS 2: send at QoS 1")
        }
    }

    package func acknowledges(_ payload: Payload) -> Bool {
        payload.qos.map { $0 != .atMostOnce } ?? configuration.requestsReceipts
    }

    /// The headers of each SEND that do not depend on the message.
    static func sendHead(_ configuration: STOMPConfiguration, _ usualType: String) -> [UInt8] {
        var output = ByteBuffer()
        STOMPFrameWriter.write("content-type", configuration.contentType ?? usualType, into: &output)
        for header in configuration.sendHeaders {
            STOMPFrameWriter.write(header.name, header.value, into: &output)
        }
        return output.bytes(at: 0, count: output.count) ?? []
    }

    private static var noDestination: TransportError {
        .configuration("destination", "is missing, and the payload has no topic")
    }

    @inline(never)
    private func tooLarge(_ count: Int) -> TransportError {
        let limit = configuration.limits.body
        return TransportError(.messageTooLarge, .open, "the message has \(count) bytes, \(limit) are allowed")
    }

    @inline(__always)
    func checkOpen() throws(TransportError) {
        switch phase {
        case .open: return
        case .closing, .failed, .ending, .closed: throw TransportError.notOpen(isOver: true)
        case .idle, .connecting, .subscribing: throw TransportError.notOpen(isOver: false)
        }
    }
}
