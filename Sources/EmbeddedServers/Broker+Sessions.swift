import TransportAPI
import Transports

// Who is there, who is remembered, and what they subscribe to.
extension Broker {
    private static let takenOver = CloseReason(
        TransportError(.closedByPeer, .open, "another client took over this client identifier")
    )

    /// Gives a client that was let in its session; who had it before loses the link (MQTT-3.1.4-2).
    func add(_ driver: LinkDriver, _ connect: MQTTConnect) {
        endForgotten()
        guard let session = driver.liveSession else { return driver.endNow(Self.takenOver) }
        if let former = clients[session.id] { takeOver(session.id, former) }
        if sessions[session.id] == nil {
            do throws(TransportError) {
                if let former = try core.connect(session.id, clientID: session.name) { end(former) }
            } catch {
                return driver.endNow(CloseReason(error))
            }
            sessions[session.id] = session
        }
        identifiers[ObjectIdentifier(driver)] = session.id
        clients[session.id] = Client(driver: driver, will: connect.will)
        retainedDeliveries[session.id]?.waitForShare()
    }

    /// The link of a session has ended; the session has too, if it is a clean one.
    func leave(_ identifier: UInt64, _ driver: LinkDriver) {
        guard let session = sessions[identifier] else { return }
        if session.isClean {
            forget(identifier)
        } else if driver.liveSession === session {
            kept.left(session, now: now)
        }
    }

    /// A link that the broker has not heard of, or no longer listens to, has ended.
    func leaveUnknown(_ driver: LinkDriver) {
        guard let session = driver.liveSession else { return }
        if let former = clients[session.id] { takeOver(session.id, former) }
        kept.left(session, now: now)
    }

    /// Ends the sessions that are not kept any longer.
    func endForgotten() {
        for identifier in kept.takeForgotten() { end(identifier) }
    }

    private func forget(_ identifier: UInt64) {
        core.disconnect(identifier)
        if core.clear(atMost: 0) { loop.runLater(FilterClearing(self)) }
        sessions.removeValue(forKey: identifier)?.end()
        retainedDeliveries[identifier] = nil
    }

    /// Ends a session, whose link goes with it.
    private func end(_ identifier: UInt64) {
        forget(identifier)
        if let client = clients[identifier] { takeOver(identifier, client) }
    }

    /// Ends the link of a client whose identifier another uses: without DISCONNECT, so that its will is published.
    private func takeOver(_ identifier: UInt64, _ client: Client) {
        clients[identifier] = nil
        identifiers[ObjectIdentifier(client.driver)] = nil
        client.driver.endNow(Self.takenOver)
        if let will = client.will { publish(will) }
    }

    // MARK: Subscriptions

    /// How many filters of sessions that are gone make room for one at most.
    private static let clearedForRoom = 64

    /// Notes what a client subscribes to, answers, and gives it what is retained there (MQTT-3.3.1-6).
    func subscribe(_ identifier: UInt64, _ packetID: UInt16, _ subscriptions: [MQTTSubscription], _ driver: LinkDriver)
    {
        var granted: [MQTTQoS?] = []
        var cleared = 0
        let isWanted = { [self] in clients[identifier]?.driver === driver }
        FilterWork.begin(subscriptions.count, of: driver, while: isWanted) { [self] index in
            let subscription = subscriptions[index]
            let qos = core.subscribe(identifier, to: subscription.filter, qos: subscription.qos)
            if qos == nil, cleared < Self.clearedForRoom,
                core.makeRoom(for: subscription.filter, of: identifier)
            {
                cleared += 1
                return false
            }
            cleared = 0
            granted.append(qos)
            guard let qos, retained.count > 0 else { return true }
            let delivery = retainedDeliveries[identifier] ?? RetainedDelivery(identifier, self)
            retainedDeliveries[identifier] = delivery
            delivery.add(Array(subscription.filter.utf8), qos: qos, newest: retained.newest)
            return true
        } end: { [self] in
            driver.grant(packetID, granted)
            retainedDeliveries[identifier]?.goOn()
        }
    }

    /// Forgets what a client no longer subscribes to, and then says so (MQTT-3.10.4-2).
    func unsubscribe(_ identifier: UInt64, _ packetID: UInt16, _ filters: [String], _ driver: LinkDriver) {
        let isWanted = { [self] in clients[identifier]?.driver === driver }
        FilterWork.begin(filters.count, of: driver, while: isWanted) { [self] index in
            core.unsubscribe(identifier, from: filters[index])
            retainedDeliveries[identifier]?.remove(Array(filters[index].utf8))
            return true
        } end: {
            driver.confirmUnsubscribe(packetID)
        }
    }
}
