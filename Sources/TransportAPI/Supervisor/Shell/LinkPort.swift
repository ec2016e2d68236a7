/// An event that a link reports to its owner.
enum LinkEvent: Sendable {
    case received(Payload)
    case pong(Duration)
    case settled(MessageID, SendOutcome)
    /// Whether messages are read. They are not while the app does not take them.
    case reading(Bool)
    /// Whether there is room for messages. In a session they are read all the same.
    case taking(Bool)
    /// A message was passed over because of its size.
    case discarded(DiscardedMessage)
    case ended(CloseReason)
}

/// The owner of a link: a supervisor, or a session of a server. Lives on its runtime.
protocol LinkOwner: AnyObject {
    var runtime: any SupervisorRuntime { get }
    /// The messages that have been received and not taken.
    var intake: Intake { get }
    var delivery: DeliveryConfiguration { get }
    /// The app has processed the message of this key, or has released it unprocessed.
    func processed(_ key: UInt64, isAbandoned: Bool)
    /// The memory that a link uses for the owner has changed.
    func bufferChanged()
    /// The link of this number reports an event.
    func happened(_ event: LinkEvent, on link: Int)
}

/// One open link for its owner: reads, sends and reports until it is closed. Lives on the owner's runtime.
final class LinkPort {
    /// How many sends may wait for a link that does not take them. A peer that keeps to the window never causes so many: it would
    /// have to send without reading.
    private static let maximumSendsUnderWay = 4096

    let owner: any LinkOwner
    let number: Int
    let link: any Link
    let immediate: (any ImmediateLink)?
    /// A link that acknowledges messages itself, at a time that the app can choose: over a broker.
    private let confirming: (any ImmediateLink)?
    private var isConfirmedByHand = false
    /// Whether a send that returns at once is settled. Not over a link with acknowledgements of its own.
    private let settlesAtOnce: Bool
    /// How many messages are taken beyond the room for them. In a session that is read on, it is one window, which the peer sends
    /// without an acknowledgement, because acknowledgements for others come in between. Otherwise it is as many again, for what an
    /// ended link had received.
    private let excess: Int
    /// Whether the link is read while there is no room. Nothing is acknowledged then.
    private let readsOn: Bool
    /// Sends in tasks of their own that have not ended. No other send may overtake them.
    private var sendsUnderWay = 0
    /// The owner has released the link: only outcomes of its messages are reported.
    private(set) var isClosed = false
    /// The link has ended while it was not read, or is about to end.
    private var isOver = false
    private var isWatched = false
    /// Whether the owner was last notified that there is room.
    private var isTaking = true
    /// Continues reading, if that waits for room.
    private var reader: (() -> Void)?

    init(_ link: any Link, _ number: Int, _ owner: any LinkOwner) {
        self.link = link
        self.number = number
        self.owner = owner
        let near = link as? any ImmediateLink
        immediate = near?.isHere == true ? near : nil
        let style = Delivery.style(owner.delivery, link.capabilities)
        let acknowledges = link.capabilities.acknowledgesMessages || link.capabilities.routesByTopic
        confirming = style != .session && acknowledges ? near : nil
        settlesAtOnce = !link.capabilities.acknowledgesMessages
        // Over a link that loses messages, what is not acknowledged is sent again and again.
        readsOn = style == .session && link.capabilities.isReliable
        // The first message beyond the window shows a peer that does not keep to it.
        excess = readsOn ? Int(SessionReceiver.window) + 1 : owner.intake.limit
        if owner.intake.isAcknowledgedByApp { confirmByHand(isRead: false) }
        immediate?.reportDiscarded { [owner] in owner.happened(.discarded($0), on: number) }
    }

    /// The memory of pending sends in bytes: a task each, and its message.
    var bufferedBytes: Int { sendsUnderWay * 1024 }

    /// How many bytes the link has received, if that is known at once; else 0.
    var bytesReceived: UInt64 { immediate?.bytesReceivedNow ?? 0 }

    /// The network has changed.
    func networkChanged() {
        if !isClosed { immediate?.networkChanged() }
    }

    var confined: RuntimeConfined<LinkPort> { RuntimeConfined(self, to: owner.runtime) }

    // MARK: Acknowledgement after processing

    /// From now on messages are acknowledged by ``confirm(_:)`` and not when the next one is requested. For a link that lives elsewhere,
    /// it must be called before the link is read.
    func confirmByHand(isRead: Bool) {
        guard let confirming, immediate != nil || !isRead else { return }
        isConfirmedByHand = true
        confirming.confirmByHand()
    }

    /// Acknowledges the `count` oldest messages that were not acknowledged.
    func confirm(_ count: Int) {
        if isConfirmedByHand { confirming?.confirm(count) }
    }

    private func report(_ event: LinkEvent) {
        if !isClosed { owner.happened(event, on: number) }
    }

    // MARK: Sending

    /// Sends; with an identifier, the outcome is reported.
    func transmit(_ id: MessageID?, _ payload: Payload) {
        if settlesAtOnce, sendsUnderWay == 0, let immediate, let outcome = immediate.sendNow(payload) {
            return settled(id, outcome)
        }
        begin(id) { link in
            guard let id, link.capabilities.completesSends else { return await link.send(payload) }
            return await link.send(payload, as: id, isRepeated: false)
        }
    }

    /// Completes a message that a former link has left, and reports the outcome.
    ///
    /// - Parameter orSend: whether a link that does not know the message sends it again.
    func complete(_ id: MessageID, _ payload: Payload, orSend: Bool) {
        begin(id) { link in
            let outcome = await link.send(payload, as: id, isRepeated: true)
            guard orSend, case .unknown(let error) = outcome, error.code == .notFound else { return outcome }
            return await link.send(payload, as: id, isRepeated: false)
        }
    }

    /// Sends in a task of its own, unless too many are pending.
    @inline(__always)
    private func begin(_ id: MessageID?, _ send: @escaping @Sendable (any Link) async -> SendOutcome) {
        guard sendsUnderWay < Self.maximumSendsUnderWay else {
            let error = TransportError(.bufferFull, .open, "the peer sends, but does not read")
            giveUp(error)
            return settled(id, .rejected(error))
        }
        sendsUnderWay += 1
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            let outcome = await send(link)
            confined.value.sendsUnderWay -= 1
            confined.value.owner.bufferChanged()
            confined.value.settled(id, outcome)
        }
    }

    private func settled(_ id: MessageID?, _ outcome: SendOutcome) {
        // The link is of no use any more, and the message waits for the next one.
        if case .rejected(let error) = outcome, !error.isFinal { giveUp(error) }
        if let id { owner.happened(.settled(id, outcome), on: number) }
    }

    /// Sends the protocol's own ping. A failure is not reported, because silence shows it.
    func ping() {
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            do throws(TransportError) {
                let time = try await link.ping()
                confined.value.report(.pong(time))
            } catch {}
        }
    }

    // MARK: Reading

    // Messages are asked for one by one: by a call if the link lives on the same loop, and otherwise by a task. Either way a message
    // is confirmed to the peer when the next one is asked for, and not before.

    /// Reads and reports until the link ends. For a link on the same loop, it only starts that.
    ///
    /// - Parameter isGreeted: whether the peer's greeting has come already. In a session that is read on, it is read in any case.
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
                // Requesting more would confirm a message that was not reported.
                if port.value.isClosed { break }
            }
        } catch {
            failure = error
        }
        await end(port, failure)
    }

    /// No more messages come. Reports the end of the link.
    private static func end(_ port: RuntimeConfined<LinkPort>, _ failure: TransportError?) async {
        let link = port.value.link
        // As a rule the link has ended by then. If it has not, it can't be read any more. The close is not awaited, because it may
        // take long, and the next link is to be opened now.
        if let failure { port.value.end(CloseReason(failure)) }
        let reason = await link.closed()
        port.value.takeAgain()
        port.value.report(.ended(reason))
    }

    /// Whether a link that has ended is read no further, because the owner holds as much as it may.
    private var mustStop: Bool { isOver && isOverfull }

    private var isOverfull: Bool { owner.intake.isFull(beyond: excess) }

    private func mustPause(after payload: Payload) -> Bool {
        report(.received(payload))
        noteRoom()
        guard !isClosed, readsOn ? isOverfull : !owner.intake.hasRoom else { return false }
        // The message was reported. The next request, which confirms it to the peer, may come after the end of the link.
        immediate?.confirmNow()
        return !isOver
    }

    // MARK: Room

    /// Notifies the owner of a session that there is no room, and later that there is.
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

    private func takeAgain() {
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

    /// The end of a link must be noticed though the app takes no messages.
    private func watch() {
        guard !isWatched else { return }
        isWatched = true
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            _ = await link.closed()
            confined.value.isOver = true
            confined.value.resumeReading()
        }
    }

    private func resumeReading() {
        guard let goOn = reader.take() else { return }
        owner.intake.onRoom = nil
        // Also for a released link, because the next one is read from its beginning.
        owner.happened(.reading(true), on: number)
        goOn()
    }

    // MARK: The end

    /// Closes the link; the task ends when the connection is closed, with the number of undelivered bytes.
    @discardableResult
    func close(_ reason: CloseReason) -> Task<Int, Never> {
        isClosed = true
        takeAgain()
        resumeReading()
        return end(reason)
    }

    private func giveUp(_ error: TransportError) {
        guard !isOver, !isClosed else { return }
        isOver = true
        resumeReading()
        end(CloseReason(error))
    }

    @discardableResult
    private func end(_ reason: CloseReason) -> Task<Int, Never> {
        Task(executorPreference: owner.runtime.taskExecutor) { [link] in await link.close(reason) }
    }

    /// Ends the link without waiting for an answer of the peer.
    func abandon(_ reason: CloseReason) {
        guard let immediate else {
            close(reason)
            return
        }
        isClosed = true
        takeAgain()
        resumeReading()
        immediate.abandon(reason)
    }
}

// MARK: A link on the same loop

extension LinkPort: LinkReceiver {
    /// The requested message has come. The link accepts sends and its close meanwhile, as it does from a server's handler.
    func receive(_ arrival: Result<Payload?, TransportError>) {
        if goesOn(after: arrival) { readHere() }
    }

    /// Takes the messages that have come, and requests a call for the next one.
    private func readHere() {
        guard let immediate else { return }
        while !isClosed {
            guard !mustStop else { return endHere(nil) }
            guard let arrival = immediate.receiveNow(orTell: self), goesOn(after: arrival) else { return }
        }
    }

    /// Reports what has come. Whether to request the next message now.
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

    /// Continues when there is room, in a job of its own, because the code that makes room is still running.
    private func readLater() {
        waitForRoom { [confined] in confined.execute { confined.value.readHere() } }
    }

    private func endHere(_ failure: TransportError?) {
        let port = confined
        Task(executorPreference: owner.runtime.taskExecutor) { await LinkPort.end(port, failure) }
    }
}
