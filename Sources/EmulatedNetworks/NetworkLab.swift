import CommandSupport
import Foundation
import Measuring
import SocketIO
import TrialCertificates

#if os(Linux)
import CNetwork
import CSocketIO
#endif

/// A client's and a server's network namespace, joined by a link that this process impairs. The TCP and UDP of the kernel
/// run on both sides. No privilege is needed where the system allows user namespaces.
package final class NetworkLab: Sendable {
    /// The address of the server.
    package static let serverHost = TrialTLS.labAddress

    /// The congestion control that is wanted: the usual one, because BBR reacts less to losses.
    private static let congestionControl = "cubic"

    /// The sides of the link.
    package enum Side: String, Sendable { case client, server }

    #if os(Linux)
    private let spaces: [Side: Int32]
    private let bridge: PacketBridge
    #endif
    /// The congestion control that new TCP sockets have.
    let congestionControlInForce: String

    /// Moves the process into a network namespace of its own. Call it before any other thread starts.
    package static func isolateProcess() throws(SystemFailure) {
        guard let refusal = refusal() else { return }
        throw SystemFailure("--network needs \(refusal). \(alternative)")
    }

    /// Builds the link for a command whose option `--network` asks for it.
    package static func forOption() throws(SystemFailure) -> NetworkLab {
        do throws(SystemFailure) {
            return try NetworkLab()
        } catch {
            throw SystemFailure("--network: \(error.message). \(alternative)")
        }
    }

    private static let alternative =
        "Without it, 'imbench serve --proxy URL --delay 25ms --loss 2%' impairs datagrams and delays streams"

    /// Moves the process like ``isolateProcess()``. Returns the missing requirement; `nil` if the process has moved.
    package static func refusal() -> String? {
        #if os(Linux)
        // Root may be without user namespaces. All other users need one.
        if geteuid() == 0, cnetwork_isolate(0) == 0 { return nil }
        if cnetwork_isolate(1) == 0 { return nil }
        return
            "a network namespace, which this system refuses (\(String(cString: strerror(errno)))): allow user namespaces "
            + "(sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns or "
            + "user.max_user_namespaces), or run as root"
        #else
        return "Linux"
        #endif
    }

    /// Builds the two namespaces and the link, after ``isolateProcess()``.
    package init() throws(SystemFailure) {
        #if os(Linux)
        try Self.check("set up lo", cnetwork_set_up("lo", 0))
        let client = try Self.makeSpace(.client, address: 0xc612_0001)
        let server = try Self.makeSpace(.server, address: 0xc612_0002)
        spaces = [.client: client.space, .server: server.space]
        bridge = try PacketBridge(client: client.packets, server: server.packets)
        csocketio_set_congestion_control(Self.congestionControl)
        congestionControlInForce = Self.readCongestionControl()
        #else
        throw SystemFailure("--network needs Linux")
        #endif
    }

    #if os(Linux)
    /// Makes the namespace of one side, with an interface whose other end is in the namespace of this thread. Returns the
    /// namespace, and a socket of the packets at the other end.
    private static func makeSpace(_ side: Side, address: UInt32) throws(SystemFailure) -> (space: Int32, packets: Int32)
    {
        let (outer, inner) = ("to-\(side.rawValue)", "eth0")
        let space = try onOwnThread { () throws(SystemFailure) -> Int32 in
            let space = cnetwork_new_namespace()
            try check("make a network namespace", space)
            return space
        }
        try check("create the interfaces", cnetwork_add_pair(outer, inner, space))
        try onOwnThread { () throws(SystemFailure) in
            try check("enter the namespace", cnetwork_enter(space))
            try check("set up lo", cnetwork_set_up("lo", 0))
            try check("switch offloads off", cnetwork_disable_offloads(inner))
            try check("set up the interface", cnetwork_set_up(inner, address))
            // A connection must not learn from those before it. Where this is refused, it does.
            if let file = fopen("/proc/sys/net/ipv4/tcp_no_metrics_save", "w") {
                fputs("1", file)
                fclose(file)
            }
        }
        try check("switch offloads off", cnetwork_disable_offloads(outer))
        try check("set up the interface", cnetwork_set_up(outer, 0))
        let packets = cnetwork_open_packets(outer)
        try check("receive the packets of an interface", packets)
        return (space, packets)
    }

    /// Throws if the result is below 0.
    private static func check(_ step: String, _ result: Int32) throws(SystemFailure) {
        guard result < 0 else { return }
        let reason = String(cString: strerror(errno))
        throw SystemFailure("this system refuses to \(step) (\(reason))")
    }

    /// Runs `body` on a new thread, which then ends, because a thread cannot leave its namespace in every system.
    private static func onOwnThread<Value: Sendable>(
        _ body: @escaping @Sendable () throws(SystemFailure) -> Value
    ) throws(SystemFailure) -> Value {
        let result = Locked<Result<Value, SystemFailure>?>(nil)
        let thread = try WorkerThread {
            let made: Result<Value, SystemFailure>
            do throws(SystemFailure) { made = .success(try body()) } catch { made = .failure(error) }
            result.withLock { $0 = made }
        }
        thread.join()
        guard let made = result.withLock({ $0 }) else { throw SystemFailure("a thread has ended without a result") }
        return try made.get()
    }

    private static func readCongestionControl() -> String {
        var name = [CChar](repeating: 0, count: 16)
        guard csocketio_congestion_control(&name) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
    #endif

    /// Moves the thread of `loop` into the namespace of one side. All sockets that the loop opens from now on are there.
    package func move(_ loop: EventLoop, to side: Side) throws(SystemFailure) {
        #if os(Linux)
        guard let space = spaces[side] else { return }
        let error = runBlocking(on: loop) { await loop.perform { cnetwork_enter(space) == 0 ? 0 : errno } }
        guard error == 0 else { throw SystemFailure("--network: cannot enter the namespace", errno: error) }
        #endif
    }

    /// Applies a network to the packets from now on, and begins new counts.
    package func use(_ network: Network, seed: UInt64) {
        #if os(Linux)
        bridge.use(network, seed: seed)
        #endif
    }

    /// The counts since the last change of the network.
    package var counts: LinkCounts {
        #if os(Linux)
        bridge.counts
        #else
        LinkCounts()
        #endif
    }

    /// Records the packets of the link from now on.
    package func startRecording() {
        #if os(Linux)
        bridge.startRecording()
        #endif
    }

    /// Returns the recorded packets.
    package func stopRecording() -> [LinkRecord] {
        #if os(Linux)
        bridge.stopRecording()
        #else
        []
        #endif
    }

    /// Ends the link. The namespaces end with the process.
    package func stop() {
        #if os(Linux)
        bridge.stop()
        for space in spaces.values { close(space) }
        #endif
    }
}
