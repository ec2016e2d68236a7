import Codecs
import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("The channel of a session", .timeLimit(.minutes(5)), .ownThread)
struct SessionChannelTests {
    @Test("Submitted messages arrive in order, and messages that the codec cannot read are events")
    func submit() async throws {
        let (events, event) = AsyncStream.makeStream(of: SupervisorEvent.self)
        let server = SessionServer { session in
            let chat = session.channel(of: ChatMessage.self)
            let (messages, sessionEvents) = (chat.messages, session.events)
            Task { for await next in sessionEvents { event.yield(next) } }
            Task {
                for await message in messages {
                    for number in 0..<100 {
                        var answer = message
                        answer.sentAtMs = Int64(number)
                        try await chat.submit(answer)
                    }
                }
            }
        }
        let listener = try await TransportRegistry.standard.listen("memory://session-channel")
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        let supervisor = try Supervisor("\(listener.endpoint)", configuration)
        let chat = supervisor.channel(of: ChatMessage.self)
        var messages = chat.messages.makeAsyncIterator()
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "no message")) == .acknowledged)
        #expect(await chat.send(ChatMessage()) == .acknowledged)
        for number in 0..<100 { #expect(await messages.next()?.sentAtMs == Int64(number)) }
        for await event in events {
            guard case .undecodable(let bytes, let sentence) = event else { continue }
            #expect(bytes == 10 && sentence.contains(#"text that begins with "no message""#))
            break
        }
        await supervisor.close()
        await listener.close()
        try await serving.value
        await server.close()
    }
}
