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
