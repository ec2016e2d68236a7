/// Is told the outcome of a message, on the runtime. It may send further messages meanwhile.
package protocol SendObserver: AnyObject {
    func settled(_ outcome: SendOutcome)
}

/// The messages that were given to a supervisor and have not ended, and who waits for what of each. Lives on a runtime.
final class PendingSends {
    private struct Message {
        var payload: Payload
        /// Is told the outcome.
        var observer: (any SendObserver)?
        /// Waits for the outcome.
        var sender: UnsafeContinuation<SendOutcome, Never>?
        /// Waits for a place in the outbox.
        var submitter: UnsafeContinuation<Result<MessageID, TransportError>, Never>?
        var isAccepted = false
        /// The store has it.
        var isStored = false
        /// Its caller goes on as soon as it has a place in the outbox.
        var isSubmitted = false
        /// The caller has its answer, or is not to wait for another; an end other than good is told by ``undelivered``.
        var isOnItsOwn = false
        /// How it ended, kept for a caller who is about to wait for that.
        var outcome: SendOutcome?

        /// Whether somebody is to hear of its end who does not wait yet.
        var isExpected: Bool { observer == nil && sender == nil && submitter == nil && !isOnItsOwn }
    }

    private struct Current {
        let id: MessageID
        var isAccepted = false
        var outcome: SendOutcome?
    }

    /// Messages that were accepted, whose callers went on, and that were not delivered.
    let undelivered = MulticastBuffer<Undelivered>(
        limit: 1024,
        byteLimit: 4 << 20,
        .dropOldest,
        keepsBacklog: true,
        size: { $0.payload.bufferedBytes }
    )
    private let store: CalledOutStore?
    // Unchecked exclusivity, because nobody is called while these change.
    @exclusivity(unchecked) private var messages: [MessageID: Message] = [:]
    /// The message that is being handed in now, and its end if that comes before it has been.
    @exclusivity(unchecked) private var current: Current?
    private var lastID: UInt64 = 0

    init(_ store: CalledOutStore?) {
        self.store = store
    }

    /// Hands in what the store kept from the last time, under the identifiers that it had.
    func restore(_ submit: (MessageID, Payload) -> Void) {
        for (id, payload) in store?.load() ?? [] where id.number > lastID && id.number < .max {
            lastID = id.number
            if let outcome = handIn(id, payload, isStored: true, submit) {
                giveBack(id, payload, outcome)
            } else {
                messages[id]?.isOnItsOwn = true
            }
        }
    }

    /// Gives a message its identifier and hands it in by `submit`; the outcome, if it is known when that returns.
    func handIn(_ payload: Payload, _ submit: (MessageID, Payload) -> Void) -> (MessageID, SendOutcome?) {
        lastID += 1
        let id = MessageID(lastID)
        return (id, handIn(id, payload, isStored: false, submit))
    }

    private func handIn(
        _ id: MessageID,
        _ payload: Payload,
        isStored: Bool,
        _ submit: (MessageID, Payload) -> Void
    ) -> SendOutcome? {
        // A message may be handed in while another is: by an observer, or by a caller that the other one makes room for.
        let outer = current
        current = Current(id: id)
        submit(id, payload)
        let inner = current
        current = outer
        if let outcome = inner?.outcome {
            if isStored { store?.remove(id) }
            return outcome
        }
        messages[id] = Message(payload: payload, isStored: isStored)
        if inner?.isAccepted == true { accepted(id) }
        return nil
    }

    /// The message has a place in the outbox. From now on the store has it as well.
    func accepted(_ id: MessageID) {
        if current?.id == id {
            current?.isAccepted = true
            return
        }
        guard var message = messages[id] else { return }
        let isNew = store != nil && !message.isStored
        message.isAccepted = true
        message.isStored = store != nil
        let submitter = message.isSubmitted ? message.submitter.take() : nil
        if message.isSubmitted { message.isOnItsOwn = true }
        messages[id] = message
        if isNew { store?.insert(id, message.payload) }
        submitter?.resume(returning: .success(id))
    }

    /// A message has ended.
    ///
    /// - Parameter isOver: it ends because the supervisor does. What was taken on then stays in the store for the next one, if
    ///   nobody was told otherwise, and is not given back.
    /// - Returns: whether this is the first word of it; one whose caller did not wait for the end may end once more.
    @discardableResult
    func finished(_ id: MessageID, _ outcome: SendOutcome, isOver: Bool = false) -> Bool {
        if current?.id == id {
            guard current?.outcome == nil else { return false }
            current?.outcome = outcome
            return true
        }
        guard let message = messages[id], message.outcome == nil else { return false }
        if message.isExpected { messages[id]?.outcome = outcome } else { messages[id] = nil }
        if isOver, message.isStored, message.isOnItsOwn, outcome.mayBeTriedAgain { return true }
        if message.isStored { store?.remove(id) }
        tell(message, id, outcome)
        return true
    }

    private func tell(_ message: Message, _ id: MessageID, _ outcome: SendOutcome) {
        if let observer = message.observer {
            observer.settled(outcome)
        } else if let sender = message.sender {
            sender.resume(returning: outcome)
        } else if let submitter = message.submitter {
            if case .rejected(let error) = outcome {
                submitter.resume(returning: .failure(error))
            } else {
                submitter.resume(returning: .success(id))
                giveBack(id, message.payload, outcome)
            }
        } else if message.isOnItsOwn {
            giveBack(id, message.payload, outcome)
        }
    }

    private func giveBack(_ id: MessageID, _ payload: Payload, _ outcome: SendOutcome) {
        if !outcome.isSuccess { undelivered.send(Undelivered(id: id, payload: payload, outcome: outcome)) }
    }

    // MARK: Suspended callers

    /// Tells `observer` the outcome of a message that was handed in and has none yet.
    func observe(_ id: MessageID, _ observer: any SendObserver) {
        messages[id]?.observer = observer
    }

    /// Waits for the end of a message that was handed in.
    func wait(sender id: MessageID, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        messages[id]?.sender = continuation
        tellIfOver(id)
    }

    private func tellIfOver(_ id: MessageID) {
        guard let message = messages[id], let outcome = message.outcome else { return }
        messages[id] = nil
        tell(message, id, outcome)
    }

    /// Lets the caller of a message that was handed in go on if it has a place in the outbox already; `false`: it has
    /// to wait for one.
    func letGo(_ id: MessageID) -> Bool {
        messages[id]?.isSubmitted = true
        guard messages[id]?.isAccepted == true else { return false }
        messages[id]?.isOnItsOwn = true
        return true
    }

    /// Waits for the place in the outbox of a message that was not let go.
    func wait(submitter id: MessageID, _ continuation: UnsafeContinuation<Result<MessageID, TransportError>, Never>) {
        // It had its place meanwhile, and may have ended since.
        guard messages[id]?.isOnItsOwn == false else { return continuation.resume(returning: .success(id)) }
        messages[id]?.submitter = continuation
        tellIfOver(id)
    }

    /// Whether somebody waits for a place in the outbox for this message.
    func isWaiting(submitter id: MessageID) -> Bool {
        messages[id]?.submitter != nil
    }

    /// The end of a message whose caller was not made to wait.
    func note(_ outcome: SendOutcome, of id: MessageID, _ payload: Payload) {
        giveBack(id, payload, outcome)
    }
}

extension SendOutcome {
    /// Whether the message is neither delivered nor too old.
    fileprivate var mayBeTriedAgain: Bool {
        switch self {
        case .rejected, .unknown: true
        case .acknowledged, .written, .expired: false
        }
    }
}
