import Codecs

/// Restores the order of each sender's messages, and drops duplicates.
///
/// The attribute `after` of a message names the last unconfirmed message of the same sender. The message is held until that
/// one has arrived. After a restart of the server the supervisor repeats some messages and the chat others, and later ones
/// may arrive first.
struct IncomingOrder: Sendable {
    /// The part of a message that is used. Its other fields can be large, so they are not held.
    struct Incoming: Sendable, Equatable {
        var id: String
        var after: String?
        var sender: String
        var text: String
        var sentAtMs: Int64

        init(_ message: ChatMessage) {
            // Neither is shown in full if it is longer, and a message with a longer identifier is one without.
            id = message.id.utf8.count <= identifierLimit ? message.id : ""
            after = message.attributes["after"]
            sender = ChatLine.printable(message.sender, limit: ChatLine.senderLimit)
            text = ChatLine.cut(message.text)
            sentAtMs = message.sentAtMs
        }

        /// Its size in bytes.
        var size: Int { id.utf8.count + (after?.utf8.count ?? 0) + sender.utf8.count + text.utf8.count }
    }

    /// How many identifiers are remembered.
    static let seenLimit = 4096
    /// The longest identifier in bytes. A message with a longer one has no order, and is not confirmed.
    static let identifierLimit = 256
    /// How many messages are held, and how many bytes. Further ones are shown out of order.
    static let heldLimit = 256
    static let bufferedBytesLimit = 4 << 20

    /// The decision about a message.
    enum Verdict: Sendable, Equatable {
        /// These messages are next, in their order.
        case ready([Incoming])
        /// Its predecessor has not arrived.
        case held
        /// It is a duplicate.
        case repeated
    }

    private var seen: Set<UTF8Key> = []
    private var order: [UTF8Key] = []
    private var oldest = 0
    /// In the order of their arrival, with their numbers.
    private var held: [(number: UInt64, message: Incoming)] = []
    /// How many messages were held so far.
    private(set) var heldCount: UInt64 = 0
    /// The bytes of the held messages.
    private(set) var bufferedBytes = 0

    /// Takes a message.
    mutating func take(_ message: ChatMessage) -> Verdict {
        let message = Incoming(message)
        // A message without an identifier has no order.
        guard !message.id.isEmpty else { return .ready([message]) }
        if seen.contains(UTF8Key(message.id)) { return .repeated }
        // The later copy may have no predecessor.
        _ = takeHeld { $0.id.hasSameUTF8(as: message.id) }
        guard let predecessor = message.after, !seen.contains(UTF8Key(predecessor)) else {
            return .ready(release(message))
        }
        guard held.count < Self.heldLimit, bufferedBytes + message.size <= Self.bufferedBytesLimit else {
            return .ready(release(message))
        }
        heldCount += 1
        held.append((heldCount, message))
        bufferedBytes += message.size
        return .held
    }

    /// Whether a message is held.
    var holdsMessages: Bool { !held.isEmpty }

    /// Releases the messages that are still held of the first `count` ever held, and those that follow them.
    mutating func waited(upTo count: UInt64) -> [Incoming] {
        var ready: [Incoming] = []
        while let oldest = held.first, oldest.number <= count {
            held.removeFirst()
            bufferedBytes -= oldest.message.size
            ready += release(oldest.message)
        }
        return ready
    }

    private mutating func takeHeld(where condition: (Incoming) -> Bool) -> [Incoming] {
        let taken = held.filter { condition($0.message) }.map(\.message)
        guard !taken.isEmpty else { return [] }
        held.removeAll { condition($0.message) }
        for message in taken { bufferedBytes -= message.size }
        return taken
    }

    private mutating func release(_ message: Incoming) -> [Incoming] {
        var ready = [message]
        remember(message.id)
        var index = 0
        while index < ready.count {
            let id = ready[index].id
            let followers = takeHeld { $0.after?.hasSameUTF8(as: id) == true }
            for follower in followers { remember(follower.id) }
            ready += followers
            index += 1
        }
        return ready
    }

    private mutating func remember(_ id: String) {
        let id = UTF8Key(id)
        guard seen.insert(id).inserted else { return }
        if order.count < Self.seenLimit { return order.append(id) }
        seen.remove(order[oldest])
        order[oldest] = id
        oldest = (oldest + 1) % Self.seenLimit
    }
}
