import TransportAPI
import Transports

// From publishers to subscribers.
extension Broker {
    /// Takes a message from a client: shows it, keeps it if it is to be retained, and hands it on.
    func take(_ publish: MQTTPublish) {
        tap?(Payload(publish.payload, topic: publish.topic, qos: publish.qos, isRetained: publish.retain))
        if publish.retain, !retained.keep(publish) { dropped += 1 }
        kept.expire(now)
        endForgotten()
        // Sending may end a link, whose will is then to be routed too.
        guard !isRouting else { return unrouted.append(publish) }
        isRouting = true
        route(publish)
        while !unrouted.isEmpty { route(unrouted.removeFirst()) }
        isRouting = false
    }

    /// Publishes the will of a client that is gone (MQTT-3.1.2-8).
    func publish(_ will: MQTTWill) {
        var publish = MQTTPublish(topic: will.topic, payload: will.payload)
        publish.qos = will.qos
        publish.retain = will.retain
        take(publish)
    }

    private func route(_ message: MQTTPublish) {
        core.route(topic: message.topic, qos: message.qos, into: &deliveries)
        routed += deliveries.count
        guard !deliveries.isEmpty else { return }
        // Who has subscribed already gets it as a fresh message (MQTT-3.3.1-9), and not as a repeated one (MQTT-3.3.1-3).
        var publish = message
        publish.retain = false
        publish.isDuplicate = false
        encoded.removeAll()
        for index in deliveries.indices {
            publish.qos = deliveries[index].qos
            send(publish, to: deliveries[index].session)
        }
    }

    private func send(_ publish: MQTTPublish, to identifier: UInt64) {
        switch publish.qos {
        case .atMostOnce: sendOnce(publish, to: identifier)
        case .atLeastOnce, .exactlyOnce: sendConfirmed(publish, to: identifier)
        }
    }

    /// QoS 0: the packet is the same for all subscribers, and is encoded once. Nobody who is away gets it.
    private func sendOnce(_ publish: MQTTPublish, to identifier: UInt64) {
        guard let client = clients[identifier] else { return }
        guard client.driver.hasRoom else { return overflowed(identifier) }
        if encoded.isEmpty {
            do throws(TransportError) {
                let (topic, retain) = (publish.topic, publish.retain)
                try MQTTCore.encode(topic: topic, payload: publish.payload, retain: retain, into: &encoded)
            } catch {
                // It came in a packet that was checked as this one is.
                dropped += 1
                return
            }
        }
        encoded.withUnsafeReadableBytes { client.driver.sendEncoded($0) }
    }

    /// QoS 1 and 2: by way of the session, which keeps it for a client that is away or has its window full.
    private func sendConfirmed(_ publish: MQTTPublish, to identifier: UInt64) {
        // The session itself may be the one that has to make room.
        guard makeRoom(for: publish), let session = sessions[identifier] else {
            dropped += 1
            return
        }
        let isLinked = clients[identifier] != nil
        if !session.outbox.append(publish, mayPass: isLinked && session.outbox.count == 0) {
            overflowed(identifier)
            let count = session.outbox.count
            guard limits.whenQueueFull == .dropOldest, session.outbox.replaceOldest(by: publish, mayPass: isLinked)
            else {
                return
            }
            dropped += UInt64(count - session.outbox.count)
        }
        clients[identifier]?.driver.sendOutbox()
    }

    /// Whether a message may be kept once more. Where all keep too much, sessions without links end, the one that keeps most
    /// first; then those with links, in the same order.
    private func makeRoom(for publish: MQTTPublish) -> Bool {
        let most = limits.maximumQueuedBytes
        if kept.ledger.bytes + publish.keptBytes <= most { return true }
        guard publish.keptBytes <= most else { return false }
        while kept.ledger.bytes + kept.ledger.cost(of: publish) > most {
            if kept.forgetLargest() {
                endForgotten()
                continue
            }
            guard let largest = sessions.values.max(by: { $0.keptBytes < $1.keptBytes }), largest.keptBytes > 0,
                let driver = clients[largest.id]?.driver
            else { return false }
            let sentence =
                "more than \(most) bytes wait for all subscribers, and most for this one"
            driver.endNow(CloseReason(TransportError(.resourcesExhausted, .open, sentence)))
        }
        return true
    }

    /// A message finds the queue of a subscriber full.
    private func overflowed(_ identifier: UInt64) {
        dropped += 1
        guard limits.whenQueueFull == .disconnect, let client = clients[identifier] else { return }
        let error = TransportError(.bufferFull, .open, "the subscriber reads too slowly")
        client.driver.endNow(CloseReason(error))
    }
}
