import Codecs
import Synchronization
import TransportAPI
import Transports

/// A chat room. Every member receives the messages of the others, and those that came while it was disconnected.
final class ChatService: Sendable {
    /// Where clients reach it.
    let endpoint: Endpoint
    private let listener: any Listener
    private let server: SessionServer

    /// Starts a server.
    ///
    /// - Parameter users: The name of the user of each token. With `nil`, all clients are accepted, and their names are not
    ///   verified.
    static func start(_ url: String, users: [String: String]? = nil) async throws -> ChatService {
        let room = Room()
        var settings = SessionServer.Configuration()
        // A member that is away with a full outbox must not delay the others.
        settings.supervisor.outbox.whenFull = .refuseNewest
        let server = SessionServer(settings, decide: users.map(decision)) { session in
            // This runs before the first message of the session. It must not wait.
            let chat = session.channel(of: ChatMessage.self)
            let messages = chat.messages
            room.join(chat)
            Task {
                for await message in messages { await room.post(message, from: chat) }
                room.leave(chat)
            }
        }
        let listener = try await TransportRegistry.standard.listen(url, observer: { event in print(event) })
        Task { try await server.serve(listener) }
        return ChatService(listener, server)
    }

    private init(_ listener: any Listener, _ server: SessionServer) {
        (endpoint, self.listener, self.server) = (listener.endpoint, listener, server)
    }

    private static func decision(_ users: [String: String]) -> @Sendable (ClientRequest) -> ClientDecision {
        { request in
            guard let token = request.token, let user = users[token] else { return .refuse(status: 401) }
            return .acceptAs(Identity(user))
        }
    }

    /// Ends the connections, for example before a restart. The sessions continue when the clients are back.
    func dropConnections() async {
        await server.dropConnections()
    }

    func stop() async {
        await listener.close()
        await server.close()
    }
}

/// The members of the chat.
private final class Room: Sendable {
    typealias Member = SessionChannel<ChatMessage>
    private let members = Mutex<[ObjectIdentifier: Member]>([:])

    func join(_ member: Member) {
        members.withLock { $0[ObjectIdentifier(member.session)] = member }
    }

    func leave(_ member: Member) {
        members.withLock { $0[ObjectIdentifier(member.session)] = nil }
    }

    /// Sends a message to all members but its sender. The outbox of a session keeps it while the member is away. A member
    /// whose outbox is full misses it.
    func post(_ message: ChatMessage, from sender: Member) async {
        var message = message
        // A client can write any name into its message, but cannot choose its identity.
        if let identity = sender.session.identity { message.sender = identity.name }
        let others = members.withLock { $0.values.filter { $0.session !== sender.session } }
        for member in others { _ = try? await member.submit(message) }
    }
}
