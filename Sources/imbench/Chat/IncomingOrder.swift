import Codecs

/// Restores the order of each sender's messages, and drops duplicates.
///
/// The attribute `after` of a message names the last unconfirmed message of the same sender. The message is held until that
/// one has arrived. After a restart of the server the supervisor repeats some messages and the chat others, and later ones
/// may arrive first.
struct IncomingOrder: Sendable {
    /// How many identifiers are remembered.
    static let seenLimit = 4096
    /// How many messages are held. Further ones are shown out of order.
    static let heldLimit = 256

    /// The decision about a message.
    enum Verdict: Sendable, Equatable {
        /// These messages are next, in their order.
        case ready([ChatMessage])
        /// Its predecessor has not arrived.
        case held
        /// It is a duplicate.
        case repeated
    }

    private var seen: Set<UTF8Key> = []
    private var order: [UTF8Key] = []
    private var oldest = 0
    /// In the order of their arrival.
    private var held: [ChatMessage] = []

    /// Takes a message.
    mutating func take(_ message: ChatMessage) -> Verdict {
        // A message without an identifier has no order.
        guard !message.id.isEmpty else { return .ready([message]) }
        if seen.contains(UTF8Key(message.id)) { return .repeated }
        if let index = held.firstIndex(where: { $0.id.hasSameUTF8(as: message.id) }) {
            // The later copy may have no predecessor.
            held.remove(at: index)
        }
        guard let predecessor = message.attributes["after"], !seen.contains(UTF8Key(predecessor)) else {
            return .ready(release(message))
        }
        guard held.count < Self.heldLimit else { return .ready(release(message)) }
        held.append(message)
        return .held
    }

    /// Releases a message that is still held, and the messages that follow it.
    mutating func waited(for id: String) -> [ChatMessage] {
        guard let index = held.firstIndex(where: { $0.id.hasSameUTF8(as: id) }) else { return [] }
        return release(held.remove(at: index))
    }

    private mutating func release(_ message: ChatMessage) -> [ChatMessage] {
        var ready = [message]
        remember(message.id)
        var index = 0
        while index < ready.count {
            let id = ready[index].id
            func follows(_ message: ChatMessage) -> Bool {
                message.attributes["after"]?.hasSameUTF8(as: id) == true
            }
            let followers = held.filter(follows)
            if !followers.isEmpty { held.removeAll(where: follows) }
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
