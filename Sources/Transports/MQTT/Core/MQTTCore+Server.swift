import TransportAPI

// The server's side: CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT.
extension MQTTCore {
    private static let open = MQTTPacketTypes(
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

    mutating func receiveAsServer(
        _ packet: MQTTPacket,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch packet {
        case .connect(let connect): return try receiveConnect(connect, &context)
        case .connectOtherLevel: throw refuse(.unacceptableProtocolVersion, &context)
        case .subscribe(let packetID, let asked): return receiveSubscribe(packetID, asked, &context)
        case .unsubscribe(let packetID, let filters): return receiveUnsubscribe(packetID, filters, &context)
        case .pingreq:
            context.counters.demands &+= 1
            write(.pingresp, &context)
            return nil
        case .disconnect:
            state = .closed
            return .closed(CloseReason(.peer, text: "the client disconnected"))
        default: throw violation("a client does not send this packet (section 2.2.1)")
        }
    }

    private mutating func receiveConnect(
        _ connect: MQTTConnect,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .server(let configuration) = side else { throw violation("CONNECT came to a client") }
        // An empty identifier asks for one of the server's making, which only a clean session can have.
        guard !connect.clientID.isEmpty || connect.cleanSession else { throw refuse(.identifierRejected, &context) }
        try checkSizes(connect, configuration, &context)
        let code = configuration.authentication?(connect, peer) ?? .accepted
        guard code == .accepted else { throw refuse(code, &context) }
        var isPresent = false
        if let sessions = configuration.sessions {
            guard let opened = sessions.open(connect, now: context.now) else {
                throw refuse(.serverUnavailable, &context)
            }
            session = opened.session
            isPresent = opened.isPresent
        }
        MQTTPacketWriter.connack(sessionPresent: isPresent, code: 0, into: &context.output)
        countWritten(&context)
        // The server's own session: whatever it holds, it has not forgotten.
        takeUpSession(isPresent: true, &context)
        heldOfConnect = (session?.name.count ?? 0) + (routesSignals ? connect.will?.size ?? 0 : 0)
        resendUnacknowledged(&context)
        keepAlive.interval = Duration.seconds(Int(connect.keepAlive)).wholeNanoseconds / 2 * 3
        state = .open
        reader.accepted = Self.open
        reader.phase = .open
        if routesSignals {
            self.connect = connect
            hasDeferred = true
        }
        return .opened
    }

    /// Refuses what would be kept for as long as the link or the session lives, and is too much.
    private mutating func checkSizes(
        _ connect: MQTTConnect,
        _ configuration: MQTTServerConfiguration,
        _ context: inout CoreContext
    ) throws(TransportError) {
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

    /// Answers CONNECT with a refusal; the error ends the link (MQTT-3.2.2-5).
    private mutating func refuse(_ code: MQTTConnackCode, _ context: inout CoreContext) -> TransportError {
        MQTTPacketWriter.connack(code: code.rawValue, into: &context.output)
        countWritten(&context)
        return .connack(code.rawValue)
    }

    private mutating func receiveSubscribe(
        _ packetID: UInt16,
        _ asked: [MQTTSubscription],
        _ context: inout CoreContext
    ) -> CoreEvent? {
        guard case .server(let configuration) = side else { return nil }
        context.counters.demands &+= 1 + UInt64(asked.count) / 8
        if routesSignals { return .mqtt(.subscribed(packetID, asked)) }
        grant(packetID, keep(asked, limit: configuration.maximumSubscriptions), &context)
        defaultTopic = topicForClient
        return nil
    }

    /// Answers SUBSCRIBE: with the QoS granted to each filter, in their order, or `nil` for a refused one.
    mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext) {
        guard state == .open else { return }
        MQTTPacketWriter.suback(packetID, granted, into: &context.output)
        countWritten(&context)
    }

    /// Answers UNSUBSCRIBE.
    mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext) {
        guard state == .open else { return }
        write(.unsuback, packetID, &context)
    }

    private mutating func receiveUnsubscribe(
        _ packetID: UInt16,
        _ filters: [String],
        _ context: inout CoreContext
    ) -> CoreEvent? {
        context.counters.demands &+= 1 + UInt64(filters.count) / 8
        guard !routesSignals else { return .mqtt(.unsubscribed(packetID, filters)) }
        write(.unsuback, packetID, &context)
        let gone = Set(filters.map(MQTTFilterKey.init))
        subscriptions.removeAll { gone.contains(MQTTFilterKey($0.filter)) }
        defaultTopic = topicForClient
        return nil
    }

    /// The longest filter that is kept point to point, in bytes, as at a broker: what is kept is gone through for each packet.
    private static let longestKeptFilter = 1024

    /// Keeps subscriptions, each in the place of a former one to the same filter (MQTT-3.8.4-3); returns what is granted. Filters
    /// are found by their bytes and not compared one with another, for there may be very many.
    private mutating func keep(_ asked: [MQTTSubscription], limit: Int) -> [MQTTQoS?] {
        var kept = subscriptions
        var places: [MQTTFilterKey: Int] = [:]
        for (place, subscription) in kept.enumerated() { places[MQTTFilterKey(subscription.filter)] = place }
        defer { subscriptions = kept }
        return asked.map { subscription in
            let filter = MQTTFilterKey(subscription.filter)
            if let place = places[filter] {
                kept[place] = subscription
            } else {
                guard kept.count < limit, filter.text.utf8.count <= Self.longestKeptFilter else { return nil }
                places[filter] = kept.count
                kept.append(subscription)
            }
            return subscription.qos
        }
    }

    /// The first topic that the client listens to by its full name.
    private var topicForClient: String? {
        subscriptions.first { MQTTTopic.isName($0.filter) }?.filter
    }

    /// The QoS at which the client gets a message of this topic: at most what it was granted, where it subscribed.
    func grantedQoS(_ wanted: MQTTQoS, _ topic: String) -> MQTTQoS {
        guard wanted != .atMostOnce else { return .atMostOnce }
        var granted: MQTTQoS?
        for subscription in subscriptions where MQTTTopic.matches(filter: subscription.filter, topic: topic) {
            granted = max(granted ?? .atMostOnce, subscription.qos)
        }
        return min(wanted, granted ?? wanted)
    }
}
