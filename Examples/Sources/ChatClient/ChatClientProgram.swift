import Foundation
import Interruption
import TransportAPI

/// `ChatClient URL NAME [TOKEN]`, for example `ChatClient ws://127.0.0.1:8080 ann secret`: sends each line of standard
/// input, and prints the messages of the others.
@main
struct ChatClientProgram {
    static func main() async throws {
        let words = CommandLine.arguments
        guard words.count >= 3 else { return print("ChatClient URL NAME [TOKEN]") }
        var token: TokenSource?
        if words.count > 3 { token = { _ in words[3] } }
        let member = try ChatMember(words[1], name: words[2], token: token)
        let messages = member.messages
        let states = member.supervisor.states
        Task { for await message in messages { print("\(message.sender): \(message.text)") } }
        Task { for await state in states { print("(\(state))") } }
        Task {
            await interruption()
            // The server gets a close frame, and messages that it has not acknowledged end with an outcome.
            await member.leave()
            exit(0)
        }
        while let line = readLine() {
            let outcome = await member.say(line)
            if !outcome.isSuccess { print("not sent: \(outcome)") }
        }
        await member.leave()
    }
}
