#if os(Linux)
import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Monitors the network path of a Linux machine by rtnetlink (RFC 3549).
///
/// A path is usable if there is a default route, its interface is up, and some interface has an address. Its name
/// consists of the default route's interface and gateway and the prefix of the interface's address, for instance `wlan0
/// 192.168.1.1 192.168.1.0/24`. The IPv4 default route is used if there is one, otherwise the IPv6 default route. Two
/// networks with the same interface, gateway and prefix have the same name.
///
/// The path is only advice. Loopback works without a network, and a supervisor with an endpoint on loopback must not
/// use this monitor. A server in the same local network can be reachable without a default route.
package final class NetlinkPathMonitor: PathMonitor {
    private let watchers: PathWatchers
    private let listener: LoopBound<NetlinkListener>

    /// Creates a monitor that lives on `loop` and uses the network namespace of the calling thread.
    ///
    /// - Throws: The system's error if there are no descriptors left, or if the system does not allow this process to
    ///   use rtnetlink.
    package init(on loop: EventLoop = .shared) throws(SystemError) {
        // The socket for changes is opened first, so that changes during the first read are reported.
        let changes = try NetlinkSocket(groups: .network, on: loop)
        var reader = NetworkReader(try NetlinkSocket(on: loop))
        let path = try reader.read()
        let watchers = PathWatchers(path)
        self.watchers = watchers
        listener = LoopBound(NetlinkListener(changes, reader, watchers, on: loop), to: loop)
        loop.execute { [listener] in listener.value.start() }
    }

    deinit {
        listener.loop.execute { [listener] in listener.value.stop() }
    }

    /// Calls `onChange` with the current path before it returns, and on the loop after each change, at most once in a
    /// tick. The result keeps the monitor alive.
    package func watch(_ onChange: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable {
        watchers.watch(keeping: self, onChange)
    }
}

/// The part of a ``NetlinkPathMonitor`` that lives on the loop. A message of the kernel only causes a new read of all
/// lists. Messages can be lost, so the state cannot be computed from them.
final class NetlinkListener: PollHandler, ScheduledHandler {
    var schedule = ScheduleEntry()
    private let loop: EventLoop
    private let changes: NetlinkSocket
    private var reader: NetworkReader
    private let watchers: PathWatchers
    private var isAsked = false
    private var isStopped = false
    private var timer: UInt64?

    init(_ changes: NetlinkSocket, _ reader: NetworkReader, _ watchers: PathWatchers, on loop: EventLoop) {
        self.loop = loop
        self.changes = changes
        self.reader = reader
        self.watchers = watchers
    }

    func start() {
        guard !isStopped else { return }
        do {
            try changes.attach(self)
        } catch {
            giveUp()
        }
    }

    func stop() {
        isStopped = true
        changes.close()
        reader.close()
        if let timer { loop.cancel(timer: timer) }
        timer = nil
    }

    func ready(_: Readiness) {
        // Reads as many messages as a socket buffers. Further messages wait for the next tick.
        var buffer = [UInt8](repeating: 0, count: NetlinkSocket.datagramSize)
        for _ in 0..<256 {
            guard !isStopped else { return }
            switch buffer.withUnsafeMutableBytes({ changes.receive(into: $0) }) {
            case .bytes(let count): if NetworkReader.matters(buffer[..<count]) { ask() }
            case .wouldBlock: return
            case .end: ask()
            case .failed(let error) where [EMSGSIZE, ENOBUFS, ENOMEM].contains(error.number): ask()
            case .failed, .insecure: return giveUp()
            }
        }
        _ = loop.schedule(at: loop.now + 1) { self.ready(.read) }
    }

    func run(_: LoopQueue) {
        isAsked = false
        refresh()
    }

    private func ask() {
        guard !isAsked else { return }
        isAsked = true
        loop.add(self, to: .tickEnd)
    }

    private func refresh() {
        guard !isStopped else { return }
        if let path = try? reader.read() { watchers.set(path) }
        settle()
    }

    /// Reads again after 1 s. The kernel removes IPv4 routes without a message when an address or an interface
    /// disappears, and can do so just after the message about that. A read can have failed, too.
    private func settle() {
        guard timer == nil else { return }
        timer = loop.schedule(at: loop.now + 1_000_000_000) { [self] in
            timer = nil
            guard !isStopped else { return }
            if let path = try? reader.read() { watchers.set(path) } else { settle() }
        }
    }

    /// Handles the loss of the socket. No changes are reported any more, so the path counts as usable, and no
    /// supervisor waits for a network.
    private func giveUp() {
        stop()
        watchers.set(NetworkPath(isUsable: true))
    }
}
#endif
