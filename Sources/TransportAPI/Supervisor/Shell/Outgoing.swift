/// The messages that were given to a supervisor and have not ended, and who waits for what of each. Lives on a runtime.
final class Outgoing {
    private struct Message {
        var payload: Payload
        /// Waits for the outcome.
        var sender: UnsafeContinuation<SendOutcome, Never>?
        /// Waits for a place in the outbox.
        var submitter: UnsafeContinuation<Result<MessageID, TransportError>, Never>?
        var isAccepted = false
        /// The caller has its answer; an end other than good is told by ``undelivered``.
        var isOnItsOwn = false
    }

    /// Messages that were accepted, whose callers went on, and that were not delivered.
    let undelivered = Broadcast<Undelivered>(limit: 1024, .dropOldest, keepsBacklog: true)
    private let store: (any OutboxStore)?
    private var messages: [MessageID: Message] = [:]
    /// The message that is being handed in now, and its end if that comes before it has been.
    private var current: (id: MessageID, payload: Payload, isAccepted: Bool, outcome: SendOutcome?)?
    private var lastID: UInt64 = 0

    init(_ store: (any OutboxStore)?) {
        self.store = store
    }

    /// Hands in what the store kept from the last time.
    func restore(_ submit: (MessageID, Payload) -> Void) {
        guard let store else { return }
        let left = store.load()
        store.removeAll()
        for payload in left {
            let (id, outcome) = handIn(payload, submit)
            if let outcome { giveBack(id, payload, outcome) } else { messages[id]?.isOnItsOwn = true }
        }
    }

    /// Gives a message its identifier and hands it in by `submit`; the outcome, if it is known when that returns.
    func handIn(_ payload: Payload, _ submit: (MessageID, Payload) -> Void) -> (MessageID, SendOutcome?) {
        lastID += 1
        let id = MessageID(lastID)
        // A message may be handed in while another is: by an observer, or by whoever that one makes room for.
        let outer = current
        current = (id, payload, false, nil)
        submit(id, payload)
        let inner = current
        current = outer
        if let outcome = inner?.outcome { return (id, outcome) }
        messages[id] = Message(payload: payload, isAccepted: inner?.isAccepted ?? false)
        return (id, nil)
    }

    func accepted(_ id: MessageID) {
        if current?.id == id {
            current?.isAccepted = true
            if let store, let payload = current?.payload { store.insert(id, payload) }
            return
        }
        guard messages[id] != nil else { return }
        messages[id]?.isAccepted = true
        if let store, let payload = messages[id]?.payload { store.insert(id, payload) }
        guard let submitter = messages[id]?.submitter.take() else { return }
        messages[id]?.isOnItsOwn = true
        submitter.resume(returning: .success(id))
    }

    func finished(_ id: MessageID, _ outcome: SendOutcome) {
        store?.remove(id)
        if current?.id == id {
            current?.outcome = outcome
            return
        }
        guard let message = messages.removeValue(forKey: id) else { return }
        if let sender = message.sender {
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

    // MARK: Waiting

    func wait(sender id: MessageID, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        messages[id]?.sender = continuation
    }

    /// Waits for a place in the outbox; the continuation is resumed at once if there is one already.
    func wait(submitter id: MessageID, _ continuation: UnsafeContinuation<Result<MessageID, TransportError>, Never>) {
        guard messages[id]?.isAccepted == false else {
            messages[id]?.isOnItsOwn = true
            return continuation.resume(returning: .success(id))
        }
        messages[id]?.submitter = continuation
    }

    /// The end of a message whose caller was not made to wait.
    func note(_ outcome: SendOutcome, of id: MessageID, _ payload: Payload) {
        giveBack(id, payload, outcome)
    }
}
