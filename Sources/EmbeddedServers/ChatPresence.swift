import Codecs
import TransportAPI

/// The members of a room that have introduced themselves, in the order in which they did.
///
/// A client says `here` when it enters. The room answers with the list of the others, and tells them when the session
/// of the client has ended. A client is known by its instance, because two may have one name.
struct ChatPresence {
    /// What a `here` says.
    struct Introduction {
        fileprivate(set) var number: UInt64 = 0
        let conversation: String
        let instance: String
        let name: String

        /// Reads a `here`. Returns `nil` for another message.
        init?(_ payload: Payload) {
            guard payload.bytes.count <= ChatPresence.longestIntroduction,
                let message = ChatMessage.read(payload)?.message,
                message.attributes["event"]?.hasSameUTF8(as: "here") == true,
                let instance = message.attributes["instance"], instance.utf8.count <= ChatPresence.longestInstance
            else { return nil }
            conversation = message.conversation
            self.instance = instance
            name = message.sender
        }

        /// Whether both are of one client in one conversation.
        fileprivate func isOfSameClient(as other: Introduction) -> Bool {
            instance.hasSameUTF8(as: other.instance) && conversation.hasSameUTF8(as: other.conversation)
        }
    }

    /// The longest `here`, and the longest instance, in bytes.
    private static let (longestIntroduction, longestInstance) = (4096, 32)
    /// How many members one part of the list has. It fits into a datagram.
    private static let part = 16

    private var introductions: [Introduction] = []
    private var last: UInt64 = 0

    /// Adds an introduction of a session. Returns it with its number, and the notice that the client of the session's
    /// former introduction is gone, if that was another.
    mutating func add(_ introduction: Introduction, inPlaceOf former: Introduction?) -> (
        Introduction, gone: ChatMessage?
    ) {
        var introduction = introduction
        if let former, former.isOfSameClient(as: introduction) {
            introduction.number = former.number
            return (introduction, nil)
        }
        last += 1
        introduction.number = last
        introductions.append(introduction)
        return (introduction, former.map { remove($0) })
    }

    /// Removes the introduction of a client whose session has ended. Returns the notice for the others.
    mutating func remove(_ introduction: Introduction) -> ChatMessage {
        introductions.removeAll { $0.number == introduction.number }
        var notice = Self.notice("gone")
        notice.sender = introduction.name
        notice.attributes["instance"] = introduction.instance
        return notice
    }

    /// A part of the list of the others in a client's conversation: those whose numbers are larger than `number`.
    /// Returns it with the number after which the next part begins, or `nil` if it is the last part.
    func list(for client: Introduction, after number: UInt64) -> (ChatMessage, next: UInt64?) {
        var notice = Self.notice("members")
        var next = number
        for introduction in introductions
        where introduction.number > number && introduction.number != client.number
            && introduction.conversation.hasSameUTF8(as: client.conversation)
        {
            if notice.mentions.count == Self.part {
                notice.attributes["more"] = "yes"
                return (notice, next)
            }
            notice.mentions.append(introduction.instance)
            next = introduction.number
        }
        return (notice, nil)
    }

    /// A notice of the server. It has no conversation, and the room passes on no such message of a member.
    private static func notice(_ event: String) -> ChatMessage {
        var notice = ChatMessage()
        notice.kind = .system
        notice.sender = "server"
        notice.attributes["event"] = event
        return notice
    }
}
