#if os(Linux)
import SocketIO
import Testing
import TransportAPI

@testable import Transports

/// A loop whose thread has its own network namespace without any network. Nothing that happens in it leaves it.
private enum Namespace {
    /// `nil` if this process may not create a namespace, or if there is no `ip` to set it up.
    static let loop = Task { () -> EventLoop? in
        guard let loop = try? EventLoop(name: "im-namespace") else { return nil }
        let isAllowed = await on(loop) {
            // sched.h declares `unshare` only with _GNU_SOURCE.
            typealias Unshare = @convention(c) (Int32) -> Int32
            guard let symbol = dlsym(nil, "unshare") else { return false }
            let newNetwork: Int32 = 0x4000_0000
            return unsafeBitCast(symbol, to: Unshare.self)(newNetwork) == 0
                && run("ip link add v0 type veth peer name v1")
        }
        return isAllowed ? loop : nil
    }

    static func on<Value: Sendable>(_ loop: EventLoop, _ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in loop.execute { continuation.resume(returning: body()) } }
    }

    /// Runs a shell command in the namespace of the calling thread. Returns `false` if it failed.
    static func run(_ line: String) -> Bool {
        let text = ["/bin/sh", "-c", line]
        var words: [UnsafeMutablePointer<CChar>?] = text.map { strdup($0) } + [nil]
        var environment: [UnsafeMutablePointer<CChar>?] = [strdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), nil]
        defer { for word in words + environment { free(word) } }
        var child = pid_t()
        guard posix_spawn(&child, "/bin/sh", nil, nil, &words, &environment) == 0 else { return false }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return status == 0
    }
}

@Suite(
    "Netlink path monitor",
    .serialized,
    .enabled("needs a network namespace and ip(8)") { await Namespace.loop.value != nil }
)
struct NetlinkPathMonitorTests {
    private func setUp(_ line: String, _ loop: EventLoop) async {
        #expect(await Namespace.on(loop) { Namespace.run(line) }, "\(line)")
    }

    @Test("A monitor follows interfaces, addresses and routes", .timeLimit(.minutes(5)))
    func follows() async throws {
        let loop = try #require(await Namespace.loop.value)
        let (paths, feed) = AsyncStream.makeStream(of: NetworkPath.self)
        let watch = await Namespace.on(loop) {
            Result { try NetlinkPathMonitor(on: loop).watch { feed.yield($0) } }
        }
        let held = try watch.get()
        var path = paths.makeAsyncIterator()
        let none = NetworkPath(isUsable: false)
        #expect(await path.next() == none)
        // Loopback and an address without a route are not a network. The next path is the one with the route.
        await setUp("ip link set lo up; ip addr add 192.0.2.5/24 dev v0; ip link set v0 up; ip link set v1 up", loop)
        await setUp("ip route add default via 192.0.2.1", loop)
        let home = NetworkPath(isUsable: true, network: "v0 192.0.2.1 192.0.2.0/24")
        #expect(await path.next() == home)
        // The cable is unplugged and plugged in again.
        await setUp("ip link set v1 down", loop)
        #expect(await path.next() == none)
        await setUp("ip link set v1 up", loop)
        #expect(await path.next() == home)
        // Another address of the same network is not reported. Another network is.
        await setUp("ip addr add 192.0.2.6/24 dev v0; ip addr add 198.51.100.7/25 dev v0", loop)
        await setUp("ip route replace default via 198.51.100.1", loop)
        #expect(await path.next()?.network == "v0 198.51.100.1 198.51.100.0/25")
        await setUp("ip -4 addr flush dev v0", loop)
        #expect(await path.next() == none)
        await setUp("ip addr add 2001:db8::5/64 dev v0 nodad; ip -6 route add default via 2001:db8::1", loop)
        #expect(await path.next()?.network == "v0 2001:db8::1 2001:db8::/64")
        await setUp("ip link set v0 down", loop)
        #expect(await path.next() == none)
        withExtendedLifetime(held) {}
    }

    @Test(
        "A monitor survives more changes than its socket holds and reports their result once",
        .timeLimit(.minutes(5))
    )
    func overflow() async throws {
        let loop = try #require(await Namespace.loop.value)
        await setUp("ip addr flush dev v0; ip link set v0 up; ip link set v1 up; ip addr add 192.0.2.5/24 dev v0", loop)
        let (paths, feed) = AsyncStream.makeStream(of: NetworkPath.self)
        let watch = await Namespace.on(loop) {
            Result { try NetlinkPathMonitor(on: loop).watch { feed.yield($0) } }
        }
        let held = try watch.get()
        var path = paths.makeAsyncIterator()
        #expect(await path.next()?.isUsable == false)
        // The loop waits for the shell, so all changes happen within one tick.
        await setUp(
            """
            { for i in $(seq 2000); do echo "route add 10.0.$((i / 250)).$((i % 250))/32 dev v0"; done
            echo "route add default via 192.0.2.9"; echo "route replace default via 192.0.2.1"; } | ip -batch -
            """,
            loop
        )
        #expect(await path.next()?.network == "v0 192.0.2.1 192.0.2.0/24")
        withExtendedLifetime(held) {}
    }
}
#endif
