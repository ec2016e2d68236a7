import Testing

@testable import SocketIO

@Suite("Resolver")
struct ResolverTests {
    @Test("A numeric address needs no look-up")
    func numeric() async throws {
        let loop = try Loops.of(.automatic)
        let found = try await Resolver.resolve("::1", port: 80, on: loop, deadline: .max)
        #expect(found.map(\.description) == ["[::1]:80"])
        #expect(SocketAddress(numeric: "localhost", port: 1) == nil)
    }

    @Test("The resolver finds localhost")
    func localhost() async throws {
        let loop = try Loops.of(.automatic)
        let found = try await Resolver.resolve("localhost", port: 80, on: loop, deadline: .max)
        #expect(found.contains { $0.host == "127.0.0.1" || $0.host == "::1" })
    }

    @Test("A name that cannot exist is an error")
    func missing() async throws {
        let loop = try Loops.of(.automatic)
        await #expect(throws: ConnectError.self) {
            _ = try await Resolver.resolve("no-such-host.invalid", port: 1, on: loop, deadline: .max)
        }
    }

    @Test("The look-up of a cancelled task ends at once")
    func cancelled() async throws {
        let loop = try Loops.of(.automatic)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await Resolver.resolve("no-such-host.invalid", port: 1, on: loop, deadline: .max)
        }
        let error = await #expect(throws: ConnectError.self) { _ = try await task.value }
        #expect(error == .cancelled)
    }
}

@Suite("Look-ups while the resolver hangs", .timeLimit(.minutes(5)), .ownThread)
struct HangingLookUpsTests {
    /// A resolver that answers some names, and for all others hangs until it is released.
    private final class Hanging: Sendable {
        /// The look-ups read from one end, and wait until the other is closed.
        private let ends: (reader: Int32, writer: Int32)
        let started = Locked(0)
        let answered = Locked(["cached.example": "192.0.2.7"])

        init() {
            var pair: [Int32] = [-1, -1]
            pipe(&pair)
            ends = (pair[0], pair[1])
        }

        func lookUp(_ host: String, _ port: UInt16) -> LookUps.Outcome {
            if let text = answered.withLock({ $0[host] }), let address = SocketAddress(numeric: text, port: port) {
                return .success([address])
            }
            started.withLock { $0 += 1 }
            var byte: UInt8 = 0
            _ = read(ends.reader, &byte, 1)
            return .failure(.resolverFailed("released"))
        }

        func release() { close(ends.writer) }
    }

    private let resolver = Hanging()
    private let lookUps: LookUps

    init() throws {
        let path = "/tmp/im-hosts-\(getpid())-\(MonotonicClock.now())"
        let text =
            "# comment\n192.0.2.1 one.example One.Alias # two.example\n2001:db8::1\tone.example\r\n\nx\n 192.0.2.3 ."
        let file = fopen(path, "w")
        fputs(text, file)
        fclose(file)
        lookUps = LookUps(hosts: path) { [resolver] in resolver.lookUp($0, $1) }
        self.path = path
    }

    private let path: String

    private func resolve(_ host: String) async throws -> [String] {
        let loop = try Loops.of(.automatic)
        let found = try await Resolver.resolve(host, port: 80, on: loop, deadline: .max, by: lookUps)
        return found.map(\.description)
    }

    @Test("Names of the hosts file, localhost and the last answers are found, and others fail at once")
    func localNames() async throws {
        #expect(try await resolve("cached.example") == ["192.0.2.7:80"])
        resolver.answered.withLock { $0 = [:] }
        let loop = try Loops.of(.automatic)
        let waiting = (0..<LookUps.limit).map { number in
            Task {
                try await Resolver.resolve("host\(number).example", port: 80, on: loop, deadline: .max, by: lookUps)
            }
        }
        while resolver.started.withLock({ $0 }) < LookUps.limit { await Task.yield() }
        #expect(try await resolve("One.Example.") == ["192.0.2.1:80", "[2001:db8::1]:80"])
        #expect(try await resolve("one.alias") == ["192.0.2.1:80"])
        #expect(try await resolve("Cached.example") == ["192.0.2.7:80"])
        #expect(try await resolve("localhost") == ["[::1]:80", "127.0.0.1:80"])
        #expect(try await resolve("a.localhost") == ["[::1]:80", "127.0.0.1:80"])
        #expect(try await resolve("192.0.2.9") == ["192.0.2.9:80"])
        for name in ["two.example", "x", "192.0.2.1x", "other.example", "comment"] {
            let error = await #expect(throws: ConnectError.self) { _ = try await resolve(name) }
            #expect(error == .resolverFailed("64 look-ups are waiting for the resolver already"))
        }
        // A cancelled wait ends at once, and its look-up goes on.
        for task in waiting { task.cancel() }
        for task in waiting { await #expect(throws: ConnectError.cancelled) { _ = try await task.value } }
        await #expect(throws: ConnectError.self) { _ = try await resolve("new.example") }
        resolver.release()
        unlink(path)
    }

    @Test("One name that hangs leaves room for others")
    func oneName() async throws {
        resolver.answered.withLock { $0["other.example"] = "192.0.2.8" }
        let loop = try Loops.of(.automatic)
        let waiting = (0..<LookUps.limitPerName).map { _ in
            Task { try await Resolver.resolve("dead.example", port: 80, on: loop, deadline: .max, by: lookUps) }
        }
        while resolver.started.withLock({ $0 }) < LookUps.limitPerName { await Task.yield() }
        let error = await #expect(throws: ConnectError.self) { _ = try await resolve("Dead.example") }
        #expect(error == .resolverFailed("16 look-ups of dead.example are waiting for the resolver already"))
        #expect(try await resolve("other.example") == ["192.0.2.8:80"])
        resolver.release()
        for task in waiting { await #expect(throws: ConnectError.self) { _ = try await task.value } }
        // The look-ups have ended, so that the name is looked up again.
        resolver.answered.withLock { $0["dead.example"] = "192.0.2.9" }
        #expect(try await resolve("dead.example") == ["192.0.2.9:80"])
        unlink(path)
    }
}
