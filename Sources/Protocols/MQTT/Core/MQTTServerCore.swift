import TransportAPI

/// A server's side of MQTT 3.1.1, for one client.
///
/// It is open when it has accepted a CONNECT. It works in one of two ways: point to point, where payloads are messages,
/// or for a broker, which gets every packet as an ``MQTTSignal``.
package struct MQTTServerCore: MQTTCore {
    enum Phase: Sendable {
        /// The core has not started.
        case idle
        /// CONNECT must come by this time.
        case connecting(until: Instant)
        /// Messages can be sent and received.
        case open
        /// This side has closed the connection, and `closed` is still to be reported.
        case closing(CloseReason)
        /// The end was reported.
        case closed
    }

    package static let role = CoreRole.server

    private let configuration: MQTTServerConfiguration
    package var flow: MQTTFlow
    private var phase = Phase.idle
    /// An event that waits because another one is reported first.
    private var deferred: CoreEvent?
    /// The client's filters, point to point; `nil` if a broker routes.
    private(set) var filters: PointToPointFilters?
    /// How long the client may be silent, in nanoseconds; 0 for any time (MQTT-3.1.2-24).
    private var longestSilence: Int64 = 0
    /// The size of the client's identifier and its will in bytes. They are stored here or by a broker as long as the
    /// connection lives.
    private var connectSize = 0
    /// The client's address and port, if they are known.
    package var peer: String?
    package var clientCertificate: TLSCertificate?

    /// Creates the core of one connection.
    ///
    /// - Throws: The errors of ``MQTTServerConfiguration/validate()``.
    package init(_ configuration: MQTTServerConfiguration) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        let size = configuration.maximumMessageSize
        filters = configuration.routesSignals ? nil : PointToPointFilters(limit: configuration.maximumSubscriptions)
        flow = MQTTFlow(
            .server,
            reader: MQTTPacketReader(
                maximumMessageSize: size,
                accepted: MQTTPacketTypes(),
                longestKeptTopic: configuration.routesSignals ? Self.longestRoutedTopic : MQTTTopic.maximumLength
            ),
            maximumMessageSize: size,
            qos: configuration.qos,
            inFlight: InFlight(window: configuration.maximumInFlight),
            maximumUnreleased: configuration.maximumUnreleased
        )
    }

    /// The longest topic that is stored for the next message if a broker routes, in bytes. It only saves time there.
    private static let longestRoutedTopic = 256
    /// Messages stay in the outbox while this many bytes of output wait to be written.
    private static let maximumOutput = 1 << 20

    private static let accepted = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .subscribe,
        .unsubscribe,
        .pingreq,
        .disconnect
    )

    private var isOpen: Bool { if case .open = phase { true } else { false } }

    /// The memory that the client makes the server use, in bytes. It contains the client identifier, the will, the last
    /// topic, the identifiers that are not released, and, without a broker, the filters.
    package var bufferedBytes: Int {
        mutating get {
            connectSize + (filters?.size ?? 0) + flow.reader.bufferedBytes + flow.receiver.bufferedBytes
        }
    }

    package var capabilities: Capabilities { flow.capabilities(keepalive: 0, completesSends: false) }

    package mutating func start(_ context: inout CoreContext) {
        guard case .idle = phase else { return }
        phase = .connecting(until: context.now.advanced(by: configuration.handshakeTimeout))
        flow.reader.accepted = MQTTPacketTypes(.connect)
    }

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if deferred != nil { return takeDeferred() }
        switch phase {
        case .idle, .closed: return nil
        case .open: if filters == nil { sendOutbox(&context) }
        case .connecting, .closing: break
        }
        let packet: MQTTPacket?
        do throws(TransportError) {
            packet = try flow.reader.next(&input)
        } catch {
            if case .connecting = phase { throw foreign(error, input, &context) }
            throw error
        }
        if let packet {
            flow.times.lastReceived = context.now
            let event = try receive(packet, &context)
            flow.unread = input.count
            return event ?? .progress
        }
        guard flow.reader.begun == nil else { return .progress }
        // The bytes of a message are a sign of life, and whole packets otherwise (MQTT-3.1.2-24).
        if input.count > flow.unread, input.byte(at: 0).map({ $0 >> 4 }) == MQTTPacketType.publish.rawValue {
            flow.times.lastReceived = context.now
        }
        flow.unread = input.count
        return nil
    }

    /// Returns the event that had to wait.
    private mutating func takeDeferred() -> CoreEvent? {
        if case .closing = phase { phase = .closed }
        return deferred.take()
    }

    @inline(__always)
    private mutating func receive(
        _ packet: MQTTPacket,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if case .publish(let publish) = packet { return try receive(publish, &context) }
        context.counters.controlFrames += 1
        switch packet {
        case .puback, .pubrec, .pubrel, .pubcomp: return try flow.receiveAcknowledgement(packet, &context)
        case .connect(let connect): return try receiveConnect(connect, &context)
        case .connectOtherLevel: throw refuse(.unacceptableProtocolVersion, &context)
        case .subscribe(let packetID, let asked): return receiveSubscribe(packetID, asked, &context)
        case .unsubscribe(let packetID, let filters): return receiveUnsubscribe(packetID, filters, &context)
        case .pingreq:
            context.counters.controlWork &+= 1
            flow.write(.pingresp, &context)
            return nil
        case .disconnect:
            phase = .closed
            return .closed(CloseReason(.peer, text: "the client disconnected"))
        default: throw violation("a client does not send this packet (section 2.2.1)")
        }
    }

    // MARK: CONNECT

    private mutating func receiveConnect(
        _ connect: MQTTConnect,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        // An empty identifier requests one from the server, which is allowed in a clean session only.
        guard !connect.clientID.isEmpty || connect.cleanSession else { throw refuse(.identifierRejected, &context) }
        try checkSizes(connect, &context)
        let code = configuration.authentication?(connect, peer, clientCertificate) ?? .accepted
        guard code == .accepted else { throw refuse(code, &context) }
        var isPresent = false
        if let sessions = configuration.sessions {
            guard let opened = sessions.open(connect, now: context.now) else {
                throw refuse(.serverUnavailable, &context)
            }
            flow.session = opened.session
            isPresent = opened.isPresent
        }
        MQTTPacketWriter.connack(sessionPresent: isPresent, code: 0, into: &context.output)
        flow.countWritten(&context)
        // This is the server's own session, so it has not lost it.
        flow.resumeSession(isPresent: true, &context)
        connectSize = (flow.session?.name.count ?? 0) + (filters == nil ? connect.will?.size ?? 0 : 0)
        flow.resendUnacknowledged(&context)
        longestSilence = Duration.seconds(Int(connect.keepAlive)).wholeNanoseconds / 2 * 3
        phase = .open
        flow.open(accepting: Self.accepted)
        if filters == nil { deferred = .mqtt(.connected(connect)) }
        return .opened
    }

    /// Refuses an identifier or a will that is too large to be stored as long as the connection or the session lives.
    private mutating func checkSizes(_ connect: MQTTConnect, _ context: inout CoreContext) throws(TransportError) {
        let (name, will) = (connect.clientID.utf8.count, connect.will?.size ?? 0)
        guard name <= configuration.maximumClientID else {
            var error = refuse(.identifierRejected, &context)
            error.reason = "the client identifier has \(name) bytes, \(configuration.maximumClientID) are allowed"
            throw error
        }
        guard will <= configuration.maximumWill else {
            var error = refuse(.notAuthorized, &context)
            error.code = .messageTooLarge
            error.reason = "the will has \(will) bytes, \(configuration.maximumWill) are allowed"
            throw error
        }
    }

    /// Answers CONNECT with a refusal. Returns the error that ends the connection (MQTT-3.2.2-5).
    private mutating func refuse(_ code: MQTTConnackCode, _ context: inout CoreContext) -> TransportError {
        MQTTPacketWriter.connack(code: code.rawValue, into: &context.output)
        flow.countWritten(&context)
        return .connack(code.rawValue)
    }

    // MARK: SUBSCRIBE and UNSUBSCRIBE

    private mutating func receiveSubscribe(
        _ packetID: UInt16,
        _ asked: [MQTTSubscription],
        _ context: inout CoreContext
    ) -> CoreEvent? {
        context.counters.controlWork &+= 1 + UInt64(asked.count) / 8
        guard let granted = filters?.store(asked) else { return .mqtt(.subscribed(packetID, asked)) }
        grant(packetID, granted, &context)
        return nil
    }

    private mutating func receiveUnsubscribe(
        _ packetID: UInt16,
        _ ended: [String],
        _ context: inout CoreContext
    ) -> CoreEvent? {
        context.counters.controlWork &+= 1 + UInt64(ended.count) / 8
        guard filters?.remove(ended) != nil else { return .mqtt(.unsubscribed(packetID, ended)) }
        flow.write(.unsuback, packetID, &context)
        return nil
    }

    // MARK: The end

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch phase {
        case .closing(let reason):
            phase = .closed
            deferred = nil
            return .closed(reason)
        case .closed: return .closed(.user)
        case .idle, .connecting:
            throw TransportError(.closedByPeer, .handshake, "the peer closed the connection during the handshake")
        case .open:
            let missing = flow.unread > 0 ? "in the middle of a packet" : "without DISCONNECT"
            throw TransportError(.connectionLost, .open, "the peer closed the connection \(missing)")
        }
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .closing, .closed: return
        case .idle, .connecting, .open: break
        }
        phase = .closing(reason)
        deferred = .closed(reason)
        flow.reader.accepted = MQTTPacketTypes()
    }

    package var deadline: Instant? {
        mutating get {
            switch phase {
            case .idle, .closing, .closed: nil
            case .connecting(let until): until
            case .open: silenceDue
            }
        }
    }

    /// When the client has been silent for too long. The time does not run while its bytes are not read.
    private var silenceDue: Instant? {
        guard longestSilence > 0 else { return nil }
        return max(flow.times.lastReceived, flow.times.unreadUntil).advanced(byNanoseconds: longestSilence)
    }

    package var lateHandshake: String { "no CONNECT came in time" }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        guard isOpen else { throw TransportError(.timedOut, .handshake, lateHandshake) }
        flow.times.look(at: context)
        guard let due = silenceDue, due <= context.now else { return }
        throw TransportError(.keepaliveTimeout, .open, "no packet came in one and a half times the keep alive")
    }

    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        throw TransportError(.unsupported, .open, "an MQTT server has no ping (section 3.12)")
    }
}

// Messages.
extension MQTTServerCore {
    @inline(__always)
    private mutating func receive(
        _ publish: MQTTPublish,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch publish.qos {
        case .atMostOnce: break
        case .atLeastOnce: flow.write(.puback, publish.packetID, &context)
        case .exactlyOnce:
            guard !flow.isRepeated(publish.packetID, isDuplicate: publish.isDuplicate, &context) else { return nil }
            try flow.checkUnreleased()
            flow.acceptOwnership(publish.packetID, &context)
        }
        guard filters != nil else { return .mqtt(.published(publish)) }
        let payload = Payload(
            publish.payload,
            topic: publish.topic,
            qos: publish.qos,
            isRetained: publish.retain,
            isDuplicate: publish.isDuplicate
        )
        return .message(payload)
    }

    /// Publishes a message on the payload's topic. If it has none, on the first full topic name that the client
    /// subscribed to, or else on the topic of its last message. Only point to point.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        if let topic = payload.topic { try MQTTFlow.check(topic: topic) }
        guard let topic = payload.topic ?? filters?.topic ?? lastTopic else { throw flow.noTopic() }
        let wanted = payload.qos ?? flow.publishQoS
        let qos = filters?.grantedQoS(wanted, topic) ?? wanted
        return try publish(checked: topic, payload.bytes, qos: qos, retain: payload.isRetained, id: id, &context)
    }

    private var lastTopic: String? {
        filters == nil || flow.reader.lastTopic.isEmpty ? nil : flow.reader.lastTopic
    }

    /// Publishes a message at the QoS that a broker chooses. At QoS 1 and 2, ``CoreEvent/acknowledged(_:)`` follows.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed topic, `.messageTooLarge`.
    package mutating func publish(
        topic: String,
        payload: [UInt8],
        qos: MQTTQoS,
        retain: Bool = false,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        try MQTTFlow.check(topic: topic)
        return try publish(checked: topic, payload, qos: qos, retain: retain, id: id, &context)
    }

    @inline(__always)
    private mutating func publish(
        checked topic: String,
        _ payload: [UInt8],
        qos: MQTTQoS,
        retain: Bool,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        switch phase {
        case .open: break
        case .closing, .closed: throw TransportError.notOpen(isOver: true)
        case .idle, .connecting: throw TransportError.notOpen(isOver: false)
        }
        try flow.check(size: payload.count)
        return flow.publish(checked: topic, payload, qos: qos, retain: retain, id: id, &context)
    }

    /// Writes a PUBLISH at QoS 0 that was encoded by ``encode(topic:payload:retain:into:)``.
    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        guard isOpen else { return }
        context.output.append(contentsOf: bytes)
        flow.times.lastSent = context.now
    }

    /// Appends a PUBLISH at QoS 0 to `output`, for ``sendEncoded(_:_:)``.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed topic, `.messageTooLarge` for a payload that no packet can
    ///   carry.
    package static func encode(
        topic: String,
        payload: [UInt8],
        retain: Bool = false,
        into output: inout ByteBuffer
    ) throws(TransportError) {
        try MQTTFlow.check(topic: topic)
        guard payload.count <= MQTTCheck.maximumMessageSize else {
            throw TransportError(.messageTooLarge, .open, "the message has \(payload.count) bytes")
        }
        topic.withContiguousUTF8 {
            MQTTPacketWriter.publish(topic: $0, payload: payload, qos: .atMostOnce, retain: retain, into: &output)
        }
    }

    /// Sends the client's queued messages, as far as the window and the output have room. Acknowledgements of messages
    /// in flight cause the next call. So if none is in flight, a message is sent even if the output is full.
    private mutating func sendOutbox(_ context: inout CoreContext) {
        guard let session = flow.live else { return }
        while let message = session.outbox.first,
            flow.inFlight.count == 0 || flow.waiting + context.output.count < Self.maximumOutput
        {
            var status = SendStatus.written
            do throws(TransportError) {
                status = try publish(
                    checked: message.topic,
                    message.payload,
                    qos: message.qos,
                    retain: message.retain,
                    id: MQTTFlow.noCaller,
                    &context
                )
            } catch {
                // The message is larger than this connection allows, so it can never be sent.
            }
            guard status != .blocked else { return }
            session.outbox.removeFirst()
        }
    }
}

extension MQTTServerCore: BrokeredCore {
    package mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext) {
        guard isOpen else { return }
        MQTTPacketWriter.suback(packetID, granted, into: &context.output)
        flow.countWritten(&context)
    }

    package mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext) {
        guard isOpen else { return }
        flow.write(.unsuback, packetID, &context)
    }
}
