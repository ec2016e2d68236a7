// What a link has received, on its way to the owner: asked for one by one, by a call where the link lives on the same loop, and by a
// task where it does not. Either way a message is confirmed to the far side when the next one is asked for, and not before.

extension LinkPort {
    /// Reads and reports until the link ends. Of a link that is here, this only begins it.
    ///
    /// - Parameter isGreeted: whether the far side has said its greeting already; where a session is read on, that is read in any
    ///   case.
    static func read(_ port: RuntimeConfined<LinkPort>, isGreeted: Bool) async {
        port.value.noteRoom()
        let mustPause = (isGreeted || !port.value.readsOn) && port.value.isOverfull
        if port.value.immediate != nil { return mustPause ? port.value.readLater() : port.value.readHere() }
        if mustPause { await pause(port) }
        let link = port.value.link
        var failure: TransportError?
        do throws(TransportError) {
            while !port.value.mustStop, let payload = try await link.receive() {
                if port.value.mustPause(after: payload) { await pause(port) }
                // What was not reported must not be confirmed by asking for more.
                if port.value.isClosed { break }
            }
        } catch {
            failure = error
        }
        await end(port, failure)
    }

    /// Nothing more comes; the end is reported when it is there.
    private static func end(_ port: RuntimeConfined<LinkPort>, _ failure: TransportError?) async {
        let link = port.value.link
        // It has ended by this, as a rule. One that has not can't be read any more. The close is not waited for, because the
        // connection of a link that has ended may take long to close, and the next one is to be opened now.
        if let failure { port.value.end(CloseReason(failure)) }
        let reason = await link.closed()
        port.value.takeAgain()
        port.value.report(.ended(reason))
    }

    /// Whether nothing more is read of a link that has ended: the owner holds all that it may hold.
    private var mustStop: Bool { isOver && isOverfull }

    private var isOverfull: Bool { owner.intake.isFull(beyond: excess) }

    private func mustPause(after payload: Payload) -> Bool {
        report(.received(payload))
        noteRoom()
        guard !isClosed, readsOn ? isOverfull : !owner.intake.hasRoom else { return false }
        // It was reported; and asking for the next one, which would say so to the far side, may come after the link's end.
        immediate?.confirmNow()
        return !isOver
    }

    // MARK: Room

    /// Tells the owner of a session when there is no room any more, and when there is again.
    private func noteRoom() {
        guard readsOn, isTaking, !isClosed, !owner.intake.hasRoom else { return }
        isTaking = false
        owner.intake.onRoom = { [self] in roomMade() }
        owner.happened(.taking(false), on: number)
    }

    private func roomMade() {
        takeAgain()
        resumeReading()
    }

    func takeAgain() {
        guard !isTaking else { return }
        isTaking = true
        owner.intake.onRoom = nil
        owner.happened(.taking(true), on: number)
    }

    private static func pause(_ port: RuntimeConfined<LinkPort>) async {
        await withUnsafeContinuation { continuation in port.value.waitForRoom { continuation.resume() } }
    }

    private func waitForRoom(_ goOn: @escaping () -> Void) {
        guard !owner.intake.hasRoom, !isClosed, !isOver else { return goOn() }
        reader = goOn
        report(.reading(false))
        owner.intake.onRoom = { [self] in roomMade() }
        watch()
    }

    /// The end of a link must not wait until somebody takes messages.
    private func watch() {
        guard !isWatched else { return }
        isWatched = true
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            _ = await link.closed()
            confined.value.isOver = true
            confined.value.resumeReading()
        }
    }

    func resumeReading() {
        guard let goOn = reader.take() else { return }
        owner.intake.onRoom = nil
        // Also of a link that was let go: the next one is read from its beginning.
        owner.happened(.reading(true), on: number)
        goOn()
    }
}

// MARK: A link that is here

extension LinkPort: LinkReceiver {
    /// What was asked for has come. The link is in the middle of its work: it takes what is sent meanwhile, and a word that it is to
    /// end, as it does from a server's handler.
    func receive(_ arrival: Result<Payload?, TransportError>) {
        if goesOn(after: arrival) { readHere() }
    }

    /// Takes what is there, and is called for what is not.
    private func readHere() {
        guard let immediate else { return }
        while !isClosed {
            guard !mustStop else { return endHere(nil) }
            guard let arrival = immediate.receiveNow(orTell: self), goesOn(after: arrival) else { return }
        }
    }

    /// Reports what has come; whether the next is to be asked for now.
    private func goesOn(after arrival: Result<Payload?, TransportError>) -> Bool {
        switch arrival {
        case .success(let payload?):
            guard mustPause(after: payload) else { return true }
            readLater()
        case .success(nil): endHere(nil)
        case .failure(let error): endHere(error)
        }
        return false
    }

    /// Goes on when there is room; not while somebody is at work who has just made it.
    private func readLater() {
        waitForRoom { [confined] in confined.execute { confined.value.readHere() } }
    }

    private func endHere(_ failure: TransportError?) {
        let port = confined
        Task(executorPreference: owner.runtime.taskExecutor) { await LinkPort.end(port, failure) }
    }
}
