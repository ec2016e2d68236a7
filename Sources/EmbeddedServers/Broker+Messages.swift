import TransportAPI
import Transports

// From publishers to subscribers.
extension Broker {
    /// Takes a message from a client: shows it, keeps it if it is to be retained, and hands it on.
    func take(_ publish: MQTTPublish) {
        tap?(Payload(publish.payload, topic: publish.topic, isRetained: publish.retain))
        if publish.retain, !retained.keep(publish) { dropped += 1 }
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

    /// Notes what a client subscribes to, answers, and gives it what is retained there (MQTT-3.3.1-6).
    func subscribe(
        _ identifier: UInt64,
        _ packetID: UInt16,
        _ subscriptions: [MQTTSubscription],
        _ driver: LinkDriver
    ) {
        let answer = subscriptions.map { core.subscribe(identifier, to: $0.filter, qos: $0.qos) }
        driver.grant(packetID, answer)
        for case (let subscription, let granted?) in zip(subscriptions, answer) {
            for var publish in retained.matching(subscription.filter) {
                publish.qos = min(publish.qos, granted)
                publish.isDuplicate = false
                encoded.removeAll()
                send(publish, to: identifier)
            }
        }
    }

    private func route(_ message: MQTTPublish) {
        core.route(topic: message.topic, qos: message.qos, into: &deliveries)
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
        guard let session = sessions[identifier] else { return }
        if !session.outbox.append(publish) {
            overflowed(identifier)
            guard limits.whenQueueFull == .dropOldest, session.outbox.replaceOldest(by: publish) else { return }
        }
        clients[identifier]?.driver.sendOutbox()
    }

    /// A message finds the queue of a subscriber full.
    private func overflowed(_ identifier: UInt64) {
        dropped += 1
        guard limits.whenQueueFull == .disconnect, let client = clients[identifier] else { return }
        let error = TransportError(.bufferFull, .open, "the subscriber reads too slowly")
        client.driver.endNow(CloseReason(error))
    }
}
