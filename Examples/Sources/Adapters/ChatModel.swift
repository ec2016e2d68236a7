import Codecs
import Observation
import TransportAPI
import Transports

/// The state of the connection and the messages, for a view. SwiftUI updates views that read its properties.
@MainActor @Observable
public final class ChatModel {
    /// A line about the connection.
    public private(set) var status = "connecting…"
    /// The messages of the conversation, one's own included.
    public private(set) var messages: [ChatMessage] = []
    /// The texts that were not delivered, for a button that sends them again.
    public private(set) var undelivered: [String] = []
    private let chat: Channel<ChatMessage>

    /// Creates a model. Call ``run()`` next.
    public init(_ supervisor: Supervisor) {
        chat = supervisor.channel()
    }

    /// Follows the supervisor until it is closed; call it in `.task` of the view.
    public func run() async {
        let (states, arrivals) = (chat.supervisor.states, chat.messages)
        async let following: Void = follow(states)
        for await message in arrivals { messages.append(message) }
        await following
    }

    private func follow(_ states: Subscription<SupervisorState>) async {
        for await state in states {
            status =
                switch state {
                case .open: "online"
                case .offline: "no network"
                case .closed(let reason): "ended: \(reason)"
                default: "connecting…"
                }
        }
    }

    /// Sends a message, and shows it when it is sent.
    public func send(_ message: ChatMessage) async {
        let outcome = await chat.send(message)
        if outcome.isSuccess { messages.append(message) } else { undelivered.append(message.text) }
    }
}
