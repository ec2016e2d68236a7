import Codecs

/// Puts what others send into the order in which they wrote it, and drops what comes twice.
///
/// Each message names by its attribute `after` the last one of the same writer that nobody had confirmed when it was sent. It
/// is held until that one was seen: after a restart of the server some messages are sent anew by the supervisor and some by
/// the chat, and the later ones may come first.
struct IncomingOrder: Sendable {
    /// How many identifiers are remembered.
    static let seenLimit = 4096
    /// How many messages are held; then the oldest is let go before its time.
    static let heldLimit = 256

    /// What becomes of a message.
    enum Verdict: Sendable, Equatable {
        /// These are next, in their order.
        case ready([ChatMessage])
        /// What it follows is not there yet.
        case held
        /// It came before and was given out.
        case repeated
    }

    private var seen: Set<UTF8Key> = []
    private var order: [UTF8Key] = []
    private var oldest = 0
    /// In the order of their arrival.
    private var held: [ChatMessage] = []

    /// Takes a message.
    mutating func take(_ message: ChatMessage) -> Verdict {
        // Without an identifier nothing can be said about it.
        guard !message.id.isEmpty else { return .ready([message]) }
        if seen.contains(UTF8Key(message.id)) { return .repeated }
        if let index = held.firstIndex(where: { $0.id.hasSameUTF8(as: message.id) }) {
            // The later copy may no longer have to wait for anything.
            held.remove(at: index)
        }
        guard let predecessor = message.attributes["after"], !seen.contains(UTF8Key(predecessor)) else {
            return .ready(release(message))
        }
        // What finds no place to wait is shown out of order.
        guard held.count < Self.heldLimit else { return .ready(release(message)) }
        held.append(message)
        return .held
    }

    /// A message has been held long enough: gives it out, if it still is, and what follows it.
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
