/// What a link reports to whoever runs it.
enum LinkEvent: Sendable {
    case received(Payload)
    case pong(Duration)
    case settled(MessageID, SendOutcome)
    /// Messages are not taken any more, so that nothing is read; or they are again.
    case reading(Bool)
    /// There is no room for messages, which are read on in a session; or there is again.
    case taking(Bool)
    /// A message was passed over because of its size.
    case discarded(DiscardedMessage)
    case ended(CloseReason)
}

/// Who runs a link. Lives on its runtime.
protocol LinkOwner: AnyObject {
    var runtime: any SupervisorRuntime { get }
    /// What has been received and is not taken yet.
    var intake: Intake { get }
    var delivery: DeliveryConfiguration { get }
    /// The app has processed the message of this key, or has let go of it without doing so.
    func processed(_ key: UInt64, isAbandoned: Bool)
    /// What a link keeps for the owner has changed.
    func bufferChanged()
    /// The link of this number reports something.
    func happened(_ event: LinkEvent, on link: Int)
}

/// One live link in the hands of its owner: reads it, sends over it, and reports, until it is closed. Lives on the owner's
/// runtime.
final class LinkPort {
    /// How many messages and frames of the session may wait for a link that does not take them. A far side that keeps to the
    /// window never makes it so many: it would have to send and not to read.
    private static let maximumSendsUnderWay = 4096

    let owner: any LinkOwner
    let number: Int
    let link: any Link
    let immediate: (any ImmediateLink)?
    /// A link that acknowledges messages by itself, where the app can say when: over a broker.
    private let confirming: (any ImmediateLink)?
    private var isConfirmedByHand = false
    /// Whether what was handed over at once is settled: not over a link with acknowledgements of its own.
    private let settlesAtOnce: Bool
    /// How many messages are taken beyond what there is room for. Where a session is read on it is a window of them, which the
    /// far side sends without an acknowledgement: the acknowledgements that others wait for come in between. Otherwise it is as
    /// many again, of what a link had received when it ended, but not of one such link after the other.
    let excess: Int
    /// Whether a link is read on while there is no room, and nothing is acknowledged.
    let readsOn: Bool
    /// Sends that were begun in tasks of their own and have not ended: nothing may overtake them.
    private var sendsUnderWay = 0
    /// The owner has let go of it: nothing more is reported but what became of its messages.
    private(set) var isClosed = false
    /// The link has ended while nothing was read from it, or is about to.
    var isOver = false
    var isWatched = false
    /// The owner was told that there is room.
    var isTaking = true
    /// Goes on with reading, where that waits for room.
    var reader: (() -> Void)?

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
        // Who sends more than a window is found out by the first message beyond it.
        excess = readsOn ? Int(SessionReceiver.window) + 1 : owner.intake.limit
        if owner.intake.isAcknowledgedByApp { confirmByHand(isRead: false) }
        immediate?.reportDiscarded { [owner] in owner.happened(.discarded($0), on: number) }
    }

    /// How much memory the sends take that were begun and have not ended, in bytes: a task each, and its message.
    var bufferedBytes: Int { sendsUnderWay * 1024 }

    /// What the link has received, where that can be known at once.
    var bytesReceived: UInt64 { immediate?.bytesReceivedNow ?? 0 }

    /// The network has changed.
    func networkChanged() {
        if !isClosed { immediate?.networkChanged() }
    }

    var confined: RuntimeConfined<LinkPort> { RuntimeConfined(self, to: owner.runtime) }

    // MARK: Acknowledgement after processing

    /// What comes from now on is acknowledged by ``confirm(_:)`` and not when the next message is asked for. For a link that lives
    /// elsewhere this has to be said before it is read.
    func confirmByHand(isRead: Bool) {
        guard let confirming, immediate != nil || !isRead else { return }
        isConfirmedByHand = true
        confirming.confirmByHand()
    }

    /// Acknowledges the oldest messages that were not acknowledged, so many.
    func confirm(_ count: Int) {
        if isConfirmedByHand { confirming?.confirm(count) }
    }

    func report(_ event: LinkEvent) {
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

    /// Has the link complete what one before has left, and reports the outcome.
    ///
    /// - Parameter orSend: whether a link that knows nothing of the message sends it again.
    func complete(_ id: MessageID, _ payload: Payload, orSend: Bool) {
        begin(id) { link in
            let outcome = await link.send(payload, as: id, isRepeated: true)
            guard orSend, case .unknown(let error) = outcome, error.code == .notFound else { return outcome }
            return await link.send(payload, as: id, isRepeated: false)
        }
    }

    /// Sends in a task of its own, unless too many do.
    @inline(__always)
    private func begin(_ id: MessageID?, _ send: @escaping @Sendable (any Link) async -> SendOutcome) {
        guard sendsUnderWay < Self.maximumSendsUnderWay else {
            let error = TransportError(.bufferFull, .open, "the far side sends, but does not read")
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
        // It has ended, or is of no use: the message waits for the next one, which there must be then.
        if case .rejected(let error) = outcome, !error.isFinal { giveUp(error) }
        if let id { owner.happened(.settled(id, outcome), on: number) }
    }

    /// Sends the protocol's own ping. A failure is not reported: silence speaks for itself.
    func ping() {
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            do throws(TransportError) {
                let time = try await link.ping()
                confined.value.report(.pong(time))
            } catch {}
        }
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
    func end(_ reason: CloseReason) -> Task<Int, Never> {
        Task(executorPreference: owner.runtime.taskExecutor) { [link] in await link.close(reason) }
    }

    /// Ends a link on which there is no point in waiting for an answer.
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
