/// The account of the messages that one connection was handed and has not settled. It decides when the next connection
/// may be handed messages.
struct Handover: Sendable {
    /// The connection that messages were handed to last.
    private struct Receiver: Sendable {
        let connection: Int
        /// The number of these messages that it has not settled.
        var unsettled = 0
        /// Whether the next connection completes these messages.
        let isCompletedByNext: Bool
        /// Set when it has returned a message or has ended. No more messages are handed over until it has settled all of
        /// them.
        var isHolding = false
    }

    /// `nil` if no connection was handed messages since they were taken back.
    private var receiver: Receiver?
    /// Whether a transport may still have messages that its next connection completes.
    private(set) var leavesMessages = false

    /// Whether no message may be handed over, until ``isOver(attached:)`` says that all are settled.
    var isHolding: Bool { receiver?.isHolding ?? false }
    /// Whether the next connection completes the messages.
    var isCompletedByNext: Bool { receiver?.isCompletedByNext ?? false }

    /// Records that a connection is attached, which completes messages or does not.
    mutating func attached(completesSends: Bool) {
        if completesSends { leavesMessages = true }
    }

    /// Records that a message is handed to `connection`.
    mutating func add(to connection: Int, completesSends: Bool) {
        if receiver?.connection != connection {
            receiver = Receiver(
                connection: connection,
                isCompletedByNext: completesSends,
                isHolding: isHolding
            )
        }
        receiver?.unsettled += 1
    }

    /// Records that `connection` has settled a message.
    ///
    /// - Returns: `false` if the message was not of this handover, because it was taken back.
    mutating func settle(by connection: Int) -> Bool {
        guard receiver?.connection == connection else { return false }
        receiver?.unsettled -= 1
        return true
    }

    /// Hands over no more messages until the connection has settled all that it has.
    mutating func hold() {
        receiver?.isHolding = true
    }

    /// Records the end of the connection.
    ///
    /// - Returns: Whether it has settled all messages. If not, no more are handed over until it has.
    mutating func ended() -> Bool {
        guard let receiver, receiver.unsettled != 0 else { return true }
        hold()
        return false
    }

    /// Whether a connection other than the attached one has settled all messages that it was handed.
    func isOver(attached: Int) -> Bool {
        guard let receiver else { return false }
        return receiver.isHolding && receiver.unsettled == 0 && receiver.connection != attached
    }

    /// Forgets the connection, because its messages were taken back.
    mutating func takeBack() {
        receiver = nil
    }
}
