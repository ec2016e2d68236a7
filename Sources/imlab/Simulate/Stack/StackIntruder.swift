import CommandSupport
import Simulation
import SocketIO
import TransportAPI

/// A client that attacks the memory or the limits of a server.
final class StackIntruder: @unchecked Sendable {
    // Unchecked, because only the thread of the simulation uses it.

    enum Kind {
        /// It sends all messages of a session but the first, so that the server can deliver none to the app.
        case hoarder
        /// It begins sessions and leaves them, until they exceed the server's limit.
        case squatter
        /// It is a member of a room, disconnects for a while, and acknowledges no message.
        case idler
        /// It connects to an encrypted server and does not complete the handshake.
        case mute
        /// It sends the first ClientHello of many handshakes over DTLS, each from another address, and returns no cookie.
        case forger
    }

    /// The limits of the server while there is an intruder.
    static let maximumSessions = 8
    static let maximumEarlyBytes = 65_536
    /// How many messages a room has in flight to a member that acknowledges none.
    private static let maximumInFlight = 2
    private static let forgedHellos = 20
    /// How long an encrypted server may keep a client in its handshake: its limit, and some time for the path.
    private static let handshakeTime: Int64 = 15_000_000_000

    private let run: StackRun
    private let kind: Kind
    private let process: SimulatedProcess
    private let loop: EventLoop
    private let url: String

    init(_ run: StackRun, _ kind: Kind, _ url: String, on loop: EventLoop, _ process: SimulatedProcess) {
        (self.run, self.kind, self.url, self.loop, self.process) = (run, kind, url, loop, process)
    }

    func live() async {
        switch kind {
        case .hoarder: await enter(0) { connection, _ in await hoard(connection) }
        case .idler: await idle()
        case .mute: await keepSilent()
        case .forger: await forge()
        case .squatter: for number in 0..<3 * Self.maximumSessions where !run.isOver { await enter(number) { _, _ in } }
        }
    }

    /// Begins or resumes a session over a new connection, and closes the connection after `body`.
    private func enter(
        _ number: Int,
        incarnation: UInt64 = 0,
        attempt: UInt32 = 1,
        _ body: (any Connection, SessionFrame?) async -> Void
    ) async {
        let connection: any Connection
        do throws(TransportError) {
            connection = try await run.registry.connect(url, on: loop)
        } catch {
            return run.world.trace.note(40, number, 0, "intruder: \(error)")
        }
        let box = EnderBox()
        box.id = run.whenOver { await connection.close() }
        let session = SessionID(high: 0x696e_7472_7564_6572, low: UInt64(number))
        _ = await connection.send(
            SessionFrame.hello(session, ClientHello(incarnation: incarnation, received: 0, attempt: attempt)).payload
        )
        if let answer = try? await connection.receive() { await body(connection, try? SessionFrame(answer)) }
        await connection.close()
        run.isDone(box.id)
    }

    /// Enters a room, disconnects without a close, returns while others write, and continues to read.
    private func idle() async {
        var incarnation: UInt64 = 0
        var messages: Set<UInt64> = []
        for attempt in 1...2 as ClosedRange<UInt32> where !run.isOver {
            await enter(0, incarnation: incarnation, attempt: attempt) { connection, answer in
                guard case .welcome(let current, _, _, _) = answer else { return }
                // A room that has ended the session begins another one, with its first messages.
                if current != incarnation { messages = [] }
                incarnation = current
                let hangUp = Task(executorPreference: loop) { [run] in
                    for _ in 0..<(attempt == 1 ? 1 : 300) where run.hasClients && !run.isOver && !Task.isCancelled {
                        await run.world.pause(1_000_000_000)
                    }
                    await connection.close()
                }
                while let payload = try? await connection.receive() {
                    if case .message(let sequence, _, _) = try? SessionFrame(payload) { messages.insert(sequence) }
                }
                hangUp.cancel()
                await hangUp.value
            }
            if messages.count > Self.maximumInFlight {
                run.checker.fail(
                    "the room has \(messages.count) messages in flight to a member that acknowledges none, above \(Self.maximumInFlight)"
                )
            }
        }
    }

    /// Connects without TLS. Sends nothing, or the beginning of a record: the length of the message is the header's.
    private func keepSilent() async {
        let connection: any Connection
        do throws(TransportError) {
            connection = try await run.registry.connect(url, on: loop)
        } catch {
            return run.world.trace.note(40, 0, 0, "intruder: \(error)")
        }
        let box = EnderBox()
        box.id = run.whenOver { await connection.close() }
        let start = run.world.now
        if run.chance(50) {
            _ = await connection.send(Payload([3, 0x40, 0] + [UInt8](repeating: 7, count: 0x1603 - 3)))
        }
        let reason = await connection.closed()
        let time = run.world.now - start
        run.world.trace.note(41, 0, 0, "intruder: ended after \(time / 1_000_000) ms: \(reason)")
        if run.plan.isCalm, !run.isOver, time > Self.handshakeTime {
            run.checker.fail("a client without a TLS handshake was connected for \(time / 1_000_000_000) s")
        }
        run.isDone(box.id)
    }

    /// Sends first ClientHellos, and bytes that are no DTLS. The rules after the schedule count the server's handshakes.
    private func forge() async {
        let library = ToyTLS(seed: UInt64(run.draw(1...1 << 30)))
        var settings = TLSSettings(.client)
        settings.isDatagram = true
        guard let context = try? library.makeContext(settings, password: nil),
            let address = SocketAddress(numeric: run.serverAddress.host, port: run.serverAddress.port)
        else { return run.checker.fail("a forger cannot start") }
        for _ in 0..<Self.forgedHellos where !run.isOver {
            guard let engine = context.makeDatagramEngine(host: "server", port: 1, largest: 1200),
                let socket = try? DatagramSocket(connectedTo: address, on: loop)
            else { return run.checker.fail("a forger cannot send") }
            withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { memory in
                var output = TLSOutput(memory)
                _ = engine.handshake(UnsafeRawBufferPointer(start: nil, count: 0), &output)
                output.forEachDatagram { _ = socket.send($0) }
            }
            await run.world.pause(Int64(run.draw(1...20_000_000)))
            socket.close()
        }
    }

    private func hoard(_ connection: any Connection) async {
        let size = min(2000, run.plan.maximumMessage - Int(SessionFrame.overhead))
        let payload = Payload([UInt8](repeating: 7, count: size))
        var bytes = 0
        for sequence in 2...512 as ClosedRange<UInt64> where bytes < 4 * Self.maximumEarlyBytes {
            guard await connection.send(SessionFrame.message(sequence, payload).payload).isSuccess else { break }
            bytes += size
        }
        let isEnded = EnderBox()
        let end = Task(executorPreference: loop) {
            _ = await connection.closed()
            isEnded.id = 1
        }
        for _ in 0..<30 where isEnded.id == 0 && !run.isOver { await run.world.pause(1_000_000_000) }
        // Over HTTP, the window of the session takes the place of the kernel's buffers.
        let most = 3 * Self.maximumEarlyBytes + (run.plan.carrier.isRequests || run.plan.fallsBack ? 300_000 : 0)
        if isEnded.id == 0, !run.isOver, run.plan.isCalm, process.bytesTaken > most {
            run.checker.fail(
                "the server buffers about \(process.bytesTaken) bytes of a session whose first message has not arrived"
            )
        }
        await connection.close()
        await end.value
    }
}
