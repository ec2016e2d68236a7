import Codecs
import TransportAPI
import Transports

/// One member of a chat: a supervisor that stays connected, and a channel of messages over it.
struct ChatMember: Sendable {
    let supervisor: Supervisor
    let chat: Channel<ChatMessage>
    let name: String

    /// Begins to connect.
    ///
    /// - Parameter token: Returns the token for the next attempt. `nil` sends none.
    init(_ url: String, name: String, token: TokenSource? = nil) throws {
        var configuration = TransportConfiguration(endpoints: [try Endpoint(url)])
        configuration.supervisor.delivery.mode = .session
        supervisor = try Supervisor(configuration) { $0.token = token }
        chat = supervisor.channel()
        self.name = name
        supervisor.connect()
    }

    /// The messages of the others. Begin to read before you expect the first one.
    var messages: DecodedMessages<ChatMessage> { chat.messages }

    /// Sends a text, and returns when the server has it.
    func say(_ text: String) async -> SendOutcome {
        let message = ChatMessage(
            id: "\(UInt64.random(in: 0 ... .max))",
            conversation: "lobby",
            sender: name,
            sentAtMs: 0,
            text: text
        )
        return await chat.send(message)
    }

    func leave() async {
        await supervisor.close()
    }
}
