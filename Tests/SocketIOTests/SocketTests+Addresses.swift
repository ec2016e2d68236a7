import Testing

@testable import SocketIO

extension SocketTests {
    @Test("try the addresses of both families in turn, the resolver's first choice first")
    func happyEyeballs() throws {
        let v6 = try ["::1", "::2", "::3"].map { try #require(SocketAddress(numeric: $0, port: 1)) }
        let v4 = try ["127.0.0.1", "127.0.0.2"].map { try #require(SocketAddress(numeric: $0, port: 1)) }
        #expect(HappyEyeballs.order(v6 + v4) == [v6[0], v4[0], v6[1], v4[1], v6[2]])
        #expect(HappyEyeballs.order(v4 + v6).first == v4[0])
        #expect(HappyEyeballs.order([]).isEmpty)
    }

    @Test(
        "name addresses as they are written",
        arguments: ["0.0.0.0", "127.0.0.1", "203.0.113.255", "::1", "2001:db8::7"]
    )
    func names(address: String) throws {
        #expect(try #require(SocketAddress(numeric: address, port: 65_535)).host == address)
    }

    @Test("reach localhost although nobody listens on its other address")
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
