import TransportAPI
import Transports

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// ReceiveUntilKilled URL LOG [STORE]: an app that receives messages of sessions and acknowledges each one once the file LOG has its
// identifier and its text, and an R between them if it is marked as repeated. A server also answers requests by their content. It serves at URL; with a STORE, as in
// `file:/tmp/inbox`, it is a client of the server or broker there. Prints where it listens, and goes on until it is killed.

let words = CommandLine.arguments
guard words.count >= 3 else { exit(64) }
let log = open(words[2], O_WRONLY | O_APPEND | O_CREAT, 0o600)
guard log >= 0 else { exit(2) }

@Sendable func record(_ message: ReceivedMessage) {
    let text = String(decoding: message.payload.bytes, as: UTF8.self)
    let line = "\(message.id.map { "\($0)" } ?? "?") \(message.isRepeated ? "R" : "-") \(text)\n"
    // What the kernel has survives the process.
    guard write(log, line, line.utf8.count) == line.utf8.count else { exit(2) }
    message.acknowledge()
}

do {
    if words.count > 3 {
        let file = """
            {"endpoints": ["\(words[1])"], "delivery": {"mode": "session"}, "outbox": {"store": "\(words[3])"}}
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        let deliveries = supervisor.deliveries
        supervisor.connect()
        _ = await supervisor.states.first { $0.isOpen }
        print("connected")
        fflush(nil)
        for await message in deliveries { record(message) }
    } else {
        // On the loop, the messages of all sessions are handled in the order of their arrival.
        let server = SessionServer(on: EventLoop.shared) { session in
            session.onRequest { $0 }
            let deliveries = session.deliveries
            Task(executorPreference: EventLoop.shared) { for await message in deliveries { record(message) } }
        }
        let listener = try await TransportRegistry.standard.listen(words[1])
        print("\(listener.endpoint)")
        fflush(nil)
        try await server.serve(listener)
    }
} catch {
    print(error)
    exit(1)
}
