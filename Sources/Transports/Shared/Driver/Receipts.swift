/// Counts the messages that the receiver has got and not confirmed; see ``ProtocolCore/confirmReceipt(_:)``.
struct Receipts {
    /// Whether the protocol has receipts.
    let areSent: Bool
    /// How many messages are not confirmed.
    private(set) var pending = 0
    /// Whether the receiver confirms messages itself, and not by requesting the next one.
    private var isByHand = false

    /// Creates the receipts of a connection without messages.
    init(areSent: Bool) {
        self.areSent = areSent
    }

    /// Counts a message that the receiver has got.
    mutating func delivered() {
        if areSent { pending += 1 }
    }

    /// From now on the receiver confirms messages itself.
    mutating func confirmByHand() {
        isByHand = true
    }

    /// How many messages the receiver confirms by requesting the next one.
    var dueAtRequest: Int { isByHand ? 0 : pending }

    /// Confirms the `count` oldest messages. Returns for how many of them receipts are to be sent.
    mutating func confirm(_ count: Int) -> Int {
        let count = min(count, pending)
        pending -= count
        return count
    }
}
