/// Receives the outcome of a message, on the runtime. It may send further messages during the call.
package protocol SendObserver: AnyObject {
    /// The message has a place in the outbox, and the store has it, if there is one. Not called for a message that ends
    /// without that.
    func accepted()
    func settled(_ outcome: SendOutcome)
}

extension SendObserver {
    /// By default, does nothing.
    package func accepted() {}
}

/// The messages that were given to a supervisor and have not ended, and the callers that wait for them. Lives on a
/// runtime.
final class PendingSends {
    /// Whether the store has a message.
    private enum Storing {
        case no
        /// It was asked to write it.
        case begun
        case done
    }

    private struct Message {
        var payload: Payload
        /// Receives the outcome.
        var observer: (any SendObserver)?
        /// Waits for the outcome.
        var sender: UnsafeContinuation<SendOutcome, Never>?
        /// Waits for a place in the outbox.
        var submitter: UnsafeContinuation<Result<MessageID, TransportError>, Never>?
        /// Whether it has a place in the outbox, and the store has it, if there is one.
        var isAccepted = false
        var storing = Storing.no
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
    /// Writes the messages to the store, if there is one.
    var journal: OutboxJournal?
    /// Whether ``undelivered`` receives messages.
    private let returnsUndelivered: Bool
    // Exclusivity is unchecked because no other code runs while these change.
    @exclusivity(unchecked) private var messages: [MessageID: Message] = [:]
    /// The message that is being submitted now, with its outcome if that comes before the submission has returned.
    @exclusivity(unchecked) private var current: Current?
    private var lastID: UInt64 = 0

    init(returnsUndelivered: Bool = true) {
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

    /// Submits a message that the store has from an earlier process, under its identifier.
    func restore(_ message: StoredMessage, _ pass: (MessageID, Payload) -> Void) {
        let (id, payload) = (message.id, message.payload)
        lastID = max(lastID, id.number)
        if let outcome = submit(id, payload, .done, pass) {
            journal?.remove(id)
            giveBack(id, payload, outcome)
        } else {
            messages[id]?.isOnItsOwn = true
        }
    }

    /// Gives no message an identifier up to this number, because earlier processes have given them.
    func reserve(through number: UInt64) {
        lastID = max(lastID, number)
    }

    /// Gives a message its identifier and submits it with `pass`. Returns the outcome if it is known when `pass` returns.
    func submit(_ payload: Payload, _ pass: (MessageID, Payload) -> Void) -> (MessageID, SendOutcome?) {
        lastID += 1
        let id = MessageID(lastID)
        return (id, submit(id, payload, .no, pass))
    }

    private func submit(
        _ id: MessageID,
        _ payload: Payload,
        _ storing: Storing,
        _ pass: (MessageID, Payload) -> Void
    ) -> SendOutcome? {
        // A message can be submitted during another submission: by an observer, or by a caller for which the other one
        // makes room.
        let outer = current
        current = Current(id: id)
        pass(id, payload)
        let inner = current
        current = outer
        if let outcome = inner?.outcome { return outcome }
        messages[id] = Message(payload: payload, storing: storing)
        if inner?.isAccepted == true { admitted(id) }
        return nil
    }

    /// The message has a place in the outbox. It is accepted at once, or as soon as the store has it.
    ///
    /// - Returns: Whether the store has it already, from an earlier process.
    @discardableResult
    func admitted(_ id: MessageID) -> Bool {
        if current?.id == id {
            current?.isAccepted = true
            return false
        }
        guard let message = messages[id] else { return false }
        if let journal, message.storing == .no {
            messages[id]?.storing = .begun
            journal.insert(id, message.payload)
            return false
        }
        accepted(id)
        return message.storing == .done
    }

    /// The store has these messages.
    func stored(_ ids: [MessageID]) {
        for id in ids where messages[id]?.storing == .begun {
            messages[id]?.storing = .done
            accepted(id)
        }
    }

    /// The store could not write these messages.
    func notStored(_ ids: [MessageID]) {
        for id in ids { messages[id]?.storing = .no }
    }

    private func accepted(_ id: MessageID) {
        guard var message = messages[id] else { return }
        message.isAccepted = true
        let submitter = message.isSubmitted ? message.submitter.take() : nil
        if message.isSubmitted { message.isOnItsOwn = true }
        messages[id] = message
        message.observer?.accepted()
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
        if isOver, message.storing == .done, message.isOnItsOwn, outcome.mayBeTriedAgain { return true }
        if message.storing != .no { journal?.remove(id) }
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
        if messages[id]?.isAccepted == true { observer.accepted() }
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
