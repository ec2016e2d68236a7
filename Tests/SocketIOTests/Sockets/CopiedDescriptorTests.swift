import Testing

@testable import SocketIO

/// A starting process has copies of all descriptors until its program runs.
extension SocketTests {
    /// Duplicates the sockets of this type that are bound to `port`. Other tests may use the port with the other type.
    private func copies(of port: UInt16, type: Int32) -> [Int32] {
        let descriptors = (0..<65_536 as Range<Int32>).filter { number in
            var found: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(number, SOL_SOCKET, SO_TYPE, &found, &size) == 0 && found == type
                && SocketAddress.filled { getsockname(number, $0, $1) }?.port == port
        }
        return descriptors.map { dup($0) }
    }

    @Test("A closed listener stops listening even if copies of its descriptor exist")
    func copiedListener() async throws {
        let loop = EventLoop.shared
        let listener = try await listen(on: loop)
        let port = try await port(of: listener)
        let copies = copies(of: port, type: Platform.streamSocket)
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 1 && copies.allSatisfy { $0 >= 0 })
        try await on(loop) { listener.value.close() }
        let error = await #expect(throws: ConnectError.self) {
            let deadline = MonotonicClock.now() + 10_000_000_000
            _ = try await StreamSocket.connect(to: "127.0.0.1", port: port, on: loop, deadline: deadline)
        }
        guard case .system(let system) = error, system.number == ECONNREFUSED else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test(
        "A closed datagram socket receives nothing even if copies of its descriptor exist",
        arguments: ["127.0.0.1", "0.0.0.0", "::"]
    )
    func copiedDatagramSocket(host: String) async throws {
        let loop = EventLoop.shared
        try await on(loop) { [self] in
            let address = try #require(SocketAddress(numeric: host, port: 0))
            let server = try DatagramSocket(boundTo: address, on: loop)
            let port = try #require(server.local).port
            let peer = try #require(SocketAddress(numeric: host == "::" ? "::1" : "127.0.0.1", port: port))
            let client = try DatagramSocket(connectedTo: peer, on: loop)
            let copies = copies(of: port, type: Platform.datagramSocket)
            defer { for copy in copies { close(copy) } }
            #expect(copies.count == 1 && copies.allSatisfy { $0 >= 0 })
            server.close()
            #expect(refusal(of: client) == ECONNREFUSED)
            client.close()
        }
    }

    @Test("A closed socket leaves its reserved port to the next one even if copies of its descriptor exist")
    func copiedReservation() async throws {
        let loop = EventLoop.shared
        let reserved = try ReservedPort(isDatagram: true)
        try await on(loop) { [self] in
            let first = try DatagramSocket(boundTo: reserved.address, on: loop)
            let copies = copies(of: reserved.port, type: Platform.datagramSocket)
            defer { for copy in copies { close(copy) } }
            // The reservation holds one of the two.
            #expect(copies.count == 2 && copies.allSatisfy { $0 >= 0 })
            first.close()
            let second = try DatagramSocket(boundTo: reserved.address, on: loop)
            let client = try DatagramSocket(connectedTo: reserved.address, on: loop)
            #expect([UInt8(1)].withUnsafeBytes { client.send($0) } == .bytes(1))
            #expect(next(of: second) == .bytes(1))
            client.close()
            second.close()
        }
    }
}
