import Interruption

/// `ChatServer URL TOKEN=NAME...`, for example `ChatServer ws://127.0.0.1:8080 secret=ann`: serves a chat until it is
/// interrupted.
@main
struct ChatServerProgram {
    static func main() async throws {
        let words = CommandLine.arguments.dropFirst()
        let users = words.dropFirst().map { word in
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            return (parts[0], parts.last ?? "")
        }
        let service = try await ChatService.start(
            words.first ?? "ws://127.0.0.1:8080",
            users: users.isEmpty ? nil : Dictionary(users) { $1 }
        )
        print("listening at \(service.endpoint)")
        await interruption()
        // The members get a close frame, and connect again when the server is back.
        await service.stop()
    }
}
