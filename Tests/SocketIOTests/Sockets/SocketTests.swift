import Primitives
import Testing

@testable import SocketIO

@Suite("Sockets", .timeLimit(.minutes(5)))
struct SocketTests {
    /// A listener on a port that the system chooses, created on its loop.
    func listen(on loop: EventLoop, backlog: Int32 = 16) async throws -> LoopBound<ListeningSocket> {
        try await on(loop) {
            let address = try #require(SocketAddress(numeric: "127.0.0.1", port: 0))
            return LoopBound(try ListeningSocket(boundTo: address, backlog: backlog, on: loop), to: loop)
        }
    }

    func port(of listener: LoopBound<ListeningSocket>) async throws -> UInt16 {
        try await on(listener.loop) { try #require(listener.value.local).port }
    }

    /// Waits for the next edge of `wanted` on a descriptor.
    private func edge(
        _ loop: EventLoop,
        _ wanted: Readiness,
        _ attach: @escaping @Sendable (Recorder) throws -> Void
    ) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            loop.execute {
                let recorder = Recorder()
                var isDone = false
                recorder.onReady = { readiness in
                    guard !isDone, !readiness.isDisjoint(with: wanted) else { return }
                    isDone = true
                    continuation.resume()
                }
                do { try attach(recorder) } catch { continuation.resume(throwing: error) }
            }
        }
    }

    @Test("A connection carries bytes both ways and reports its end", arguments: PollerKind.allCases)
    func stream(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let listener = try await listen(on: loop)
        let client = try await StreamSocket.connect(
            to: "127.0.0.1",
            port: try await port(of: listener),
            on: loop,
            deadline: MonotonicClock.now() + 10 * second
        )
        try await edge(loop, .read) { try listener.value.attach($0) }
        let server = try await on(loop) { LoopBound(try #require(try listener.value.accept()), to: loop) }
        #expect(try await on(loop) { server.value.peer?.host } == "127.0.0.1")
        let written = try await on(loop) { [UInt8]("hello".utf8).withUnsafeBytes { client.value.write($0) } }
        #expect(written == .bytes(5))
        try await edge(loop, .read) { try server.value.attach($0) }
        let received = try await on(loop) {
            var bytes = [UInt8](repeating: 0, count: 64)
            let result = bytes.withUnsafeMutableBytes { server.value.read(into: $0) }
            return (result, Array(bytes.prefix(5)))
        }
        #expect(received.0 == .bytes(5) && received.1 == Array("hello".utf8))
        try await on(loop) { server.value.close(abort: false) }
        try await edge(loop, [.read, .hangUp]) { try client.value.attach($0) }
        let end = try await on(loop) {
            var bytes = [UInt8](repeating: 0, count: 64)
            return bytes.withUnsafeMutableBytes { client.value.read(into: $0) }
        }
        #expect(end == .end)
        // Writing to a connection that the peer has closed must give an error and not end the process.
        var last = IOResult.bytes(1)
        // The first bytes cause a reset. The kernel takes further ones until it has received the reset.
        while case .bytes = last, !Task.isCancelled {
            last = try await on(loop) { [1].withUnsafeBytes { client.value.write($0) } }
        }
        switch last {
        case .end, .failed: break
        default: Issue.record("\(last)")
        }
        try await on(loop) {
            client.value.close(abort: false)
            listener.value.close()
        }
    }

    @Test("A full connection tries to write again only when it is reported as writable")
    func full() async throws {
        let loop = try Loops.of(.automatic)
        let listener = try await listen(on: loop)
        let client = try await StreamSocket.connect(
            to: "127.0.0.1",
            port: try await port(of: listener),
            on: loop,
            deadline: MonotonicClock.now() + 10 * second
        )
        try await edge(loop, .read) { try listener.value.attach($0) }
        let server = try await on(loop) { LoopBound(try #require(try listener.value.accept()), to: loop) }
        var waiting = try await on(loop) {
            let block = [UInt8](repeating: 7, count: 1 << 20)
            var taken = 0
            while case .bytes(let count) = block.withUnsafeBytes({ client.value.write($0) }) { taken += count }
            return taken
        }
        while waiting > 0 {
            let result = try await on(loop) {
                var bytes = [UInt8](repeating: 0, count: 1 << 16)
                return bytes.withUnsafeMutableBytes { server.value.read(into: $0) }
            }
            if case .bytes(let count) = result { waiting -= count }
        }
        let (before, after) = try await on(loop) {
            let word: [UInt8] = [1]
            let before = word.withUnsafeBytes { client.value.write($0) }
            client.value.note(.write)
            return (before, word.withUnsafeBytes { client.value.write($0) })
        }
        #expect(before == .wouldBlock && after == .bytes(1))
        try await on(loop) {
            client.value.close(abort: true)
            server.value.close(abort: true)
            listener.value.close()
        }
    }

    @Test("A connection attempt to a port without a listener is refused", arguments: PollerKind.allCases)
    func refused(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let unused = try ReservedPort(isDatagram: false)
        let port = unused.port
        let error = await #expect(throws: ConnectError.self) {
            _ = try await StreamSocket.connect(
                to: "127.0.0.1",
                port: port,
                on: loop,
                deadline: MonotonicClock.now() + 10 * second
            )
        }
        guard case .system(let system) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(system.number == ECONNREFUSED)
        withExtendedLifetime(unused) {}
    }

    /// A port on which connection attempts hang, because a listener with a full queue answers no further SYN.
    private func hangingPort(on loop: EventLoop) async throws -> (
        UInt16, [LoopBound<StreamSocket>], LoopBound<ListeningSocket>
    ) {
        let listener = try await listen(on: loop, backlog: 0)
        let port = try await port(of: listener)
        let filler = try await StreamSocket.connect(
            to: "127.0.0.1",
            port: port,
            on: loop,
            deadline: MonotonicClock.now() + 10 * second
        )
        return (port, [filler], listener)
    }

    #if os(Linux)
    @Test("A connection attempt ends at its deadline")
    func timeout() async throws {
        let loop = try Loops.of(.automatic)
        let (port, fillers, listener) = try await hangingPort(on: loop)
        let error = await #expect(throws: ConnectError.self) {
            _ = try await StreamSocket.connect(
                to: "127.0.0.1",
                port: port,
                on: loop,
                deadline: MonotonicClock.now() + 20_000_000
            )
        }
        #expect(error == .timedOut(resolving: false))
        try await on(loop) {
            for filler in fillers { filler.value.close(abort: true) }
            listener.value.close()
        }
    }

    @Test("A connection attempt ends at once when its task is cancelled")
    func cancellation() async throws {
        let loop = try Loops.of(.automatic)
        let (port, fillers, listener) = try await hangingPort(on: loop)
        let attempt = Task {
            try await StreamSocket.connect(
                to: "127.0.0.1",
                port: port,
                on: loop,
                deadline: MonotonicClock.now() + 600 * second
            )
        }
        attempt.cancel()
        let error = await #expect(throws: ConnectError.self) { _ = try await attempt.value }
        #expect(error == .cancelled)
        try await on(loop) {
            for filler in fillers { filler.value.close(abort: true) }
            listener.value.close()
        }
    }
    #endif

    @Test("A datagram socket carries datagrams and reports their senders", arguments: PollerKind.allCases)
    func datagrams(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let address = try #require(SocketAddress(numeric: "::1", port: 0))
        let server = try await on(loop) {
            LoopBound(try DatagramSocket(boundTo: address, on: loop), to: loop)
        }
        let client = try await on(loop) {
            LoopBound(
                try DatagramSocket(connectedTo: try #require(server.value.local), on: loop),
                to: loop
            )
        }
        _ = try await on(loop) { [UInt8]("ping".utf8).withUnsafeBytes { client.value.send($0) } }
        try await edge(loop, .read) { try server.value.attach($0) }
        let echoed = try await on(loop) {
            let batch = DatagramBatch(largest: 100)
            let result = server.value.receive(into: batch)
            var bytes: [UInt8] = []
            _ = batch.takeNext { bytes = Array($0) }
            let sender = try #require(batch.lastSender)
            _ = bytes.withUnsafeBytes { server.value.send($0, to: sender) }
            let isFirst = batch.wasFirst && !batch.wasLast
            let rest = server.value.receive(into: batch)
            return (result, isFirst && sender == client.value.local, rest)
        }
        #expect(echoed.0 == .bytes(1) && echoed.1 && echoed.2 == .wouldBlock)
        try await edge(loop, .read) { try client.value.attach($0) }
        let answer = try await on(loop) {
            let batch = DatagramBatch(largest: 100)
            let result = client.value.receive(into: batch)
            var bytes: [UInt8] = []
            _ = batch.takeNext { bytes = Array($0) }
            client.value.close()
            server.value.close()
            return (result, bytes)
        }
        #expect(answer.0 == .bytes(1) && answer.1 == Array("ping".utf8))
    }

    @Test("A descriptor is closed when its owner releases it, and not before")
    func ownership() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        for end in ends { try Platform.makeNonBlocking(end) }
        defer { close(ends[1]) }
        var writer = pollfd(fd: ends[1], events: 0, revents: 0)
        do {
            let reader = Descriptor(ends[0])
            #expect(fcntl(reader.raw, F_GETFD) >= 0)
            #expect(poll(&writer, 1, 0) == 0)
        }
        // A starting process has a copy of the reading end until its program runs.
        #expect(poll(&writer, 1, 60_000) == 1 && writer.revents != 0)
    }
}

extension SocketTests {
    @Test("The addresses of both families are tried in turn, beginning with the resolver's first choice")
    func happyEyeballs() throws {
        let v6 = try ["::1", "::2", "::3"].map { try #require(SocketAddress(numeric: $0, port: 1)) }
        let v4 = try ["127.0.0.1", "127.0.0.2"].map { try #require(SocketAddress(numeric: $0, port: 1)) }
        #expect(HappyEyeballs.order(v6 + v4) == [v6[0], v4[0], v6[1], v4[1], v6[2]])
        #expect(HappyEyeballs.order(v4 + v6).first == v4[0])
        #expect(HappyEyeballs.order([]).isEmpty)
    }

    @Test(
        "An address is formatted as it is written",
        arguments: ["0.0.0.0", "127.0.0.1", "203.0.113.255", "::1", "2001:db8::7"]
    )
    func names(address: String) throws {
        #expect(try #require(SocketAddress(numeric: address, port: 65_535)).host == address)
    }

    @Test("A connection reaches localhost even if only one of its addresses has a listener")
    func fallsBack() async throws {
        let loop = try Loops.of(.automatic)
        let listener = try await listen(on: loop)
        let socket = try await StreamSocket.connect(
            to: "localhost",
            port: try await port(of: listener),
            on: loop,
            deadline: MonotonicClock.now() + 10 * second
        )
        #expect(try await on(loop) { socket.value.peer?.host } == "127.0.0.1")
        try await on(loop) {
            socket.value.close(abort: false)
            listener.value.close()
        }
    }
}
