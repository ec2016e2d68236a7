import CommandSupport
import SocketIO
import TransportAPI

/// The first messages on each connection of the style `greeted`: the client's greeting, and the server's answer. Both are
/// too short to be a ``StackMessage``, so an app that receives one fails the schedule.
enum StackGreeting {
    private static let request = Payload(text: "greet")
    private static let answer = Payload(text: "hello")

    private struct Refused: Error {}

    /// A client's greeting. It takes some time, fails now and then, and sometimes ignores that it is cancelled.
    static func closure(_ run: StackRun, on loop: EventLoop) -> ConnectionGreeting {
        { connection, _ in
            if run.chance(20) {
                // A task of its own is not cancelled with the attempt.
                return try await Task(executorPreference: loop) { try await greet(run, connection) }.value
            }
            try await greet(run, connection)
        }
    }

    private static func greet(_ run: StackRun, _ connection: any Connection) async throws {
        if run.chance(50) { await run.world.pause(Int64(run.draw(0...100_000_000))) }
        guard await connection.send(request).isSuccess else { throw Refused() }
        if run.chance(5) { throw Refused() }
        guard let received = try await connection.receive() else { throw Refused() }
        if received.bytes != answer.bytes {
            run.checker.fail("a greeting received \(received.bytes.count) bytes that do not answer it")
        }
        if run.chance(30) { await run.world.pause(Int64(run.draw(0...100_000_000))) }
    }

    /// Receives the greeting of a client and answers it. Returns `false` if the connection ends before.
    static func receive(_ run: StackRun, _ connection: any Connection) async -> Bool {
        let box = EnderBox()
        box.id = run.whenOver {
            await connection.close()
            run.isDone(box.id)
        }
        defer { run.isDone(box.id) }
        guard let first = try? await connection.receive() else { return false }
        guard first.bytes == request.bytes else {
            run.checker.fail(
                "the first message of a connection is not the greeting, but has \(first.bytes.count) bytes"
            )
            return false
        }
        return await connection.send(answer).isSuccess
    }
}
