#if os(Linux)
import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Follows the network path of a Linux machine by rtnetlink (RFC 3549).
///
/// A path is usable if there is a default route, its interface is up, and some interface has an address. Its name is the
/// default route's interface and gateway and the prefix of the interface's address, for instance
/// `wlan0 192.168.1.1 192.168.1.0/24`: of IPv4 where there is a default route of IPv4, else of IPv6. Two networks that agree
/// in all of this have the same name.
///
/// This is advice. Loopback works without a network, and a supervisor whose endpoint is there must not use this monitor; a
/// server in the same local network may be reached without a default route.
package final class NetlinkPathMonitor: PathMonitor {
    private let watchers: PathWatchers
    private let listener: LoopBound<NetlinkListener>

    /// A monitor that lives on `loop` and sees the network namespace of the calling thread.
    ///
    /// - Throws: if the system has no descriptors left or does not let this process ask.
    package init(on loop: EventLoop = .shared) throws(SystemError) {
        // The socket that hears of changes comes first: what changes while the state is read is heard of.
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

    /// Calls `onChange` with the present path before it returns, and on the loop whenever it has changed: at most once in a
    /// turn of the loop. The result keeps the monitor.
    package func watch(_ onChange: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable {
        watchers.watch(keeping: self, onChange)
    }
}

/// The part of a ``NetlinkPathMonitor`` that lives on the loop. What the kernel tells is only the reason to read everything
/// anew: messages can be lost, and the state can't be put together from them with certainty.
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
        // As much as a socket holds; what comes on top waits until others had their turn.
        var buffer = [UInt8](repeating: 0, count: NetlinkSocket.datagramSize)
        for _ in 0..<256 {
            guard !isStopped else { return }
            switch buffer.withUnsafeMutableBytes({ changes.receive(into: $0) }) {
            case .bytes(let count): if NetworkReader.matters(buffer[..<count]) { ask() }
            case .wouldBlock: return
            case .end: ask()
            case .failed(let error) where [EMSGSIZE, ENOBUFS, ENOMEM].contains(error.number): ask()
            case .failed: return giveUp()
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

    /// Reads once more in a second. The kernel removes routes of IPv4 without a message when an address or an interface
    /// goes, and may do so just after the message about that; also, a read may have failed.
    private func settle() {
        guard timer == nil else { return }
        timer = loop.schedule(at: loop.now + 1_000_000_000) { [self] in
            timer = nil
            guard !isStopped else { return }
            if let path = try? reader.read() { watchers.set(path) } else { settle() }
        }
    }

    /// Nothing more will be heard: nobody is to wait for a network because of that.
    private func giveUp() {
        stop()
        watchers.set(NetworkPath(isUsable: true))
    }
}
#endif
