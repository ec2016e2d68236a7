import TransportAPI

/// Messages that were discarded because of their size, and the action that reports them.
struct DiscardedMessages {
    private enum State {
        /// There is no listener yet. The first messages are kept for it.
        case kept([DiscardedMessage])
        case reported((DiscardedMessage) -> Void)
    }

    private static let maximumKept = 16
    private var state = State.kept([])

    mutating func add(_ message: DiscardedMessage) {
        switch state {
        case .reported(let action): action(message)
        case .kept(let messages):
            if messages.count < Self.maximumKept { state = .kept(messages + [message]) }
        }
    }

    /// Reports the kept messages, and later ones if `isLasting`.
    mutating func report(to action: @escaping (DiscardedMessage) -> Void, andLater isLasting: Bool) {
        var messages: [DiscardedMessage] = []
        if case .kept(let kept) = state { messages = kept }
        state = isLasting ? .reported(action) : .kept([])
        for message in messages { action(message) }
    }

    /// Stops reporting, because the connection has ended.
    mutating func stop() {
        if case .reported = state { state = .kept([]) }
    }
}
