/// Receives the outcome of a message, on the runtime. It may send further messages during the call.
package protocol SendObserver: AnyObject {
    func settled(_ outcome: SendOutcome)
}

/// The messages that were given to a supervisor and have not ended, and the callers that wait for them. Lives on a
/// runtime.
final class PendingSends {
    private struct Message {
        var payload: Payload
        /// Receives the outcome.
        var observer: (any SendObserver)?
        /// Waits for the outcome.
        var sender: UnsafeContinuation<SendOutcome, Never>?
        /// Waits for a place in the outbox.
        var submitter: UnsafeContinuation<Result<MessageID, TransportError>, Never>?
        var isAccepted = false
        /// Whether the store contains the message.
        var isStored = false
        /// Whether the caller continues as soon as the message has a place in the outbox.
        var isSubmitted = false
        /// Whether the caller does not wait any more. ``undelivered`` reports a failure then.
        var isOnItsOwn = false
        /// The outcome, kept for a caller that is about to wait for it.
        var outcome: SendOutcome?

        /// Whether a caller is going to wait for the outcome and does not wait yet.
        var isExpected: Bool { observer == nil && sender == nil && submitter == nil && !isOnItsOwn }
    }

    private struct Current {
        let id: MessageID
        var isAccepted = false
        var outcome: SendOutcome?
    }

    /// Accepted messages that were not delivered and whose callers did not wait for the outcome.
    let undelivered = MulticastBuffer<Undelivered>(
        limit: 1024,
        byteLimit: 4 << 20,
        .dropOldest,
        keepsBacklog: true,
        size: { $0.payload.bufferedBytes }
    )
    private let store: CalledOutStore?
    /// Whether ``undelivered`` receives messages.
    private let returnsUndelivered: Bool
    // Exclusivity is unchecked because no other code runs while these change.
    @exclusivity(unchecked) private var messages: [MessageID: Message] = [:]
    /// The message that is being submitted now, with its outcome if that comes before the submission has returned.
    @exclusivity(unchecked) private var current: Current?
    private var lastID: UInt64 = 0

    init(_ store: CalledOutStore?, returnsUndelivered: Bool = true) {
        self.store = store
        self.returnsUndelivered = returnsUndelivered
    }

    /// Records that no caller waits for the outcome of a submitted message.
    ///
    /// - Returns: The outcome if it is known already, and whether the message has a place in the outbox, or an outcome.
    func submitAlone(
        _ submitted: (MessageID, SendOutcome?),
        _ payload: Payload
    ) -> (MessageID, SendOutcome?, hasPlace: Bool) {
        let (id, outcome) = submitted
        guard let outcome else { return (id, nil, stopsWaiting(id)) }
        if case .rejected = outcome {} else { note(outcome, of: id, payload) }
        return (id, outcome, true)
    }

    /// Submits the messages that the store kept from an earlier process, under their identifiers.
    func restore(_ pass: (MessageID, Payload) -> Void) {
        for (id, payload) in store?.load() ?? [] where id.number > lastID && id.number < .max {
            lastID = id.number
            if let outcome = submit(id, payload, isStored: true, pass) {
                giveBack(id, payload, outcome)
            } else {
                messages[id]?.isOnItsOwn = true
            }
        }
    }

    /// Gives a message its identifier and submits it with `pass`. Returns the outcome if it is known when `pass` returns.
    func submit(_ payload: Payload, _ pass: (MessageID, Payload) -> Void) -> (MessageID, SendOutcome?) {
        lastID += 1
        let id = MessageID(lastID)
        return (id, submit(id, payload, isStored: false, pass))
    }

    private func submit(
        _ id: MessageID,
        _ payload: Payload,
        isStored: Bool,
        _ pass: (MessageID, Payload) -> Void
    ) -> SendOutcome? {
        // A message can be submitted during another submission: by an observer, or by a caller for which the other one
        // makes room.
        let outer = current
        current = Current(id: id)
        pass(id, payload)
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

    /// The message has a place in the outbox. From now on the store contains it too.
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
    /// - Parameter isOver: Whether the message ends because the supervisor ends. An accepted message then stays in the
    ///   store for the next supervisor and is not returned to the app, unless a caller gets the outcome.
    /// - Returns: Whether this is the first outcome of the message. A message whose caller did not wait can end a
    ///   second time.
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
        guard returnsUndelivered, !outcome.isSuccess else { return }
        undelivered.send(Undelivered(id: id, payload: payload, outcome: outcome))
    }

    // MARK: Suspended callers

    /// Reports the outcome of a submitted message without an outcome to `observer`.
    func observe(_ id: MessageID, _ observer: any SendObserver) {
        messages[id]?.observer = observer
    }

    /// Waits for the outcome of a submitted message.
    func wait(sender id: MessageID, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        messages[id]?.sender = continuation
        tellIfOver(id)
    }

    private func tellIfOver(_ id: MessageID) {
        guard let message = messages[id], let outcome = message.outcome else { return }
        messages[id] = nil
        tell(message, id, outcome)
    }

    /// Lets the caller of a submitted message continue if it has a place in the outbox. Returns `false` if the caller
    /// must wait for one.
    func stopsWaiting(_ id: MessageID) -> Bool {
        messages[id]?.isSubmitted = true
        guard messages[id]?.isAccepted == true else { return false }
        messages[id]?.isOnItsOwn = true
        return true
    }

    /// Waits for a submitted message to get a place in the outbox.
    func wait(submitter id: MessageID, _ continuation: UnsafeContinuation<Result<MessageID, TransportError>, Never>) {
        // The message got its place meanwhile, and can have ended since.
        guard messages[id]?.isOnItsOwn == false else { return continuation.resume(returning: .success(id)) }
        messages[id]?.submitter = continuation
        tellIfOver(id)
    }

    /// Whether a caller waits for this message to get a place in the outbox.
    func isWaiting(submitter id: MessageID) -> Bool {
        messages[id]?.submitter != nil
    }

    /// Records the outcome of a message whose caller did not have to wait.
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
