import Testing

@testable import SocketIO

extension SocketTests {
    @Test("stop listening when they are closed, though a process that is being started has copies of them still")
    func copiedListener() async throws {
        let loop = EventLoop.shared
        let listener = try await listen(on: loop)
        let port = try await port(of: listener)
        let descriptors = (0..<65_536 as Range<Int32>).filter { number in
            SocketAddress.filled { getsockname(number, $0, $1) }?.port == port
        }
        let copies = descriptors.map { dup($0) }
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
}
