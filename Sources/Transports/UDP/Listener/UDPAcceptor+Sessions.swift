import SocketIO
import TransportAPI

// The sessions of a shared socket: their beginning, their end, and what they may keep together.

extension UDPAcceptor {
    func accept(_ session: UDPCore, _ input: inout ByteBuffer, from sender: SocketAddress) {
        let id = session.connectionID
        guard !isClosed, queue.hasRoom else { return core.remove(id, now: Instant(nanoseconds: loop.now)) }
        let channel = UDPSessionChannel(self, sender, session)
        let driver = LinkDriver(session, over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        sessions[id] = (driver, channel)
        driver.start()
        driver.deliver(datagram: &input, from: sender, to: channel)
    }

    /// Ends a session at once, so that a newcomer has its place.
    func displace(_ id: UInt64) {
        core.remove(id, now: Instant(nanoseconds: loop.now))
        guard let driver = sessions[id]?.driver else { return }
        let error = TransportError.tooMany("the server is full, and this client was silent for longest", .open)
        isDisplacing = true
        driver.abandon(CloseReason(.user, code: Goodbye.tryAgainLater, text: error.reason, error: error))
        isDisplacing = false
        // Its goodbye leaves now or never.
        driver.turnEnded()
        driver.close(abort: true)
    }

    /// Beyond the bound on all of them, the sessions that keep most have to go, until an eighth of it is free.
    func memoryChanged(by bytes: Int) {
        heldBytes += bytes
        total?.changed(by: bytes)
        guard bytes > 0, heldBytes > core.maximumHeld else { return }
        // Those that hold less than half as much as the average hold less than half of all.
        let much = heldBytes / max(1, sessions.count) / 2
        var most: [LinkDriver] = []
        for session in sessions.values where session.driver.heldBytes >= much { most.append(session.driver) }
        most.sort { $0.heldBytes > $1.heldBytes }
        for driver in most where heldBytes > core.maximumHeld / 8 * 7 { relieve(of: driver) }
    }

    private func relieve(of driver: LinkDriver) {
        let sentence = "the server holds too much, and for this client most"
        let error = TransportError(.resourcesExhausted, .open, sentence)
        if driver.phase == .draining {
            driver.close(abort: true)
        } else {
            driver.abandon(CloseReason(.user, code: Goodbye.tryAgainLater, text: error.reason, error: error))
            driver.tellMemory()
        }
    }

    func join(_ total: BufferedTotal) {
        self.total = total
        total.add(self, keeping: heldBytes, limit: core.maximumHeld)
    }

    var largestBuffered: Int { sessions.values.reduce(0) { max($0, $1.driver.heldBytes) } }

    func endLargest(_: Int) {
        if let largest = sessions.values.max(by: { $0.driver.heldBytes < $1.driver.heldBytes }) {
            relieve(of: largest.driver)
        }
    }

    func closed(_ driver: LinkDriver) {
        guard let session = driver.core as? UDPCore else { return }
        sessions[session.connectionID] = nil
        core.remove(session.connectionID, now: Instant(nanoseconds: loop.now))
        closeIfOver()
    }

    // MARK: What the owner hears

    /// Whoever can forge addresses opens and leaves plain sessions as often as he likes, and so it is with those that give way.
    func ended(_ driver: LinkDriver, _ reason: CloseReason, wasOpen: Bool) {
        // Whoever has ended the last link of a closed socket may want its address again: its goodbye leaves before he goes on.
        if isClosed { loop.execute { [driver = LoopConfined(living: driver, on: loop)] in driver.value.turnEnded() } }
        guard core.isPlain || isDisplacing, let code = reason.error?.code else {
            return queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
        }
        note(.sessions(code), NoteMeter.Note(client: driver.channel.peer, reason: reason, wasOpen: wasOpen))
    }

    /// A datagram was turned away.
    func note(_ reason: UDPListenerCore.DropReason, _ sender: SocketAddress) {
        note(.datagrams(reason), NoteMeter.Note(client: sender, reason: CloseReason(reason.error)))
    }

    private func note(_ kind: NoteMeter.Kind, _ note: @autoclosure () -> NoteMeter.Note) {
        guard queue.isObserved else { return }
        if let note = meter.count(kind, note(), now: loop.now) { tell(note) } else { tellLater() }
    }

    private func tellLater() {
        guard noteTimer == nil, let deadline = meter.deadline else { return }
        noteTimer = loop.schedule(at: deadline) { [self] in
            noteTimer = nil
            for note in meter.due(loop.now) { tell(note) }
            tellLater()
        }
    }

    private func tell(_ note: NoteMeter.Note) {
        queue.note(note.client, note.reason, wasOpen: note.wasOpen, count: note.count)
    }
}

extension LinkDriver {
    /// Takes a datagram of this session from the acceptor, and answers its sender from now on: when the turn ends, or at once.
    func deliver(
        datagram: inout ByteBuffer,
        from sender: SocketAddress,
        to session: UDPSessionChannel,
        andFlush flushesNow: Bool = false
    ) {
        guard phase == .opening || phase == .open else { return }
        isInShare = flushesNow
        lastHeard = loop.now
        session.heard(datagram, from: sender, now: Instant(nanoseconds: loop.now), random: &context.random)
        swap(&input, &datagram)
        pump()
        swap(&input, &datagram)
        isInShare = false
        if flushesNow && flushRequested { turnEnded() } else { tellMemory() }
    }
}
