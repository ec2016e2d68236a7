import SocketIO
import TransportAPI

/// One client of a datagram proxy, with its socket to the server. It is used on its loop only.
final class DatagramClient: PollHandler {
    let path: ProxyPath
    /// The number of this client among those of its proxy.
    let number: UInt64
    /// When its last datagram arrived, in nanoseconds of the loop's clock.
    private(set) var lastHeard: Int64
    private unowned let proxy: DatagramProxy
    private let address: SocketAddress
    private let target: SocketAddress
    private var upstream: DatagramSocket
    private var continuation = WakeUp()
    private lazy var toServer = DatagramFlow(self, .toServer)
    private lazy var toClient = DatagramFlow(self, .toClient)

    init(
        _ address: SocketAddress,
        number: UInt64,
        of proxy: DatagramProxy,
        _ target: SocketAddress
    ) throws(SystemError) {
        self.address = address
        self.number = number
        self.proxy = proxy
        self.target = target
        path = proxy.path
        lastHeard = path.loop.now
        upstream = try DatagramSocket(connectedTo: target, on: path.loop)
        try upstream.attach(self)
    }

    var bufferedBytes: Int { toServer.bufferedBytes + toClient.bufferedBytes }

    func takeFromClient(_ bytes: [UInt8]) {
        lastHeard = path.loop.now
        toServer.take(bytes)
    }

    func ready(_: Readiness) {
        if !continuation.isSet { readAll() }
    }

    private func readAll() {
        guard !proxy.receive(from: upstream, { bytes, _ in toClient.take(bytes) }) else { return }
        continuation.set(path.loop.now, on: path.loop) { [self] in
            continuation.rang()
            readAll()
        }
    }

    /// Sends a datagram at the end of the path. Returns `false` if the kernel does not take it.
    func send(_ bytes: UnsafeRawBufferPointer, _ way: PathWay) -> Bool {
        var result = put(bytes, way)
        // The error may belong to an earlier datagram, so this one is sent again.
        if case .failed = result { result = put(bytes, way) }
        switch result {
        case .bytes, .end: return true
        case .wouldBlock, .failed, .insecure: return false
        }
    }

    private func put(_ bytes: UnsafeRawBufferPointer, _ way: PathWay) -> IOResult {
        way == .toServer ? upstream.send(bytes) : proxy.send(bytes, to: address)
    }

    /// Uses another port from now on, as behind a NAT that has dropped the mapping. The old port stays if the system
    /// has no sockets left.
    func rebind() {
        do throws(SystemError) {
            let fresh = try DatagramSocket(connectedTo: target, on: path.loop)
            try fresh.attach(self)
            upstream.close()
            upstream = fresh
        } catch {
            path.statistics.failedConnections += 1
        }
    }

    func faultsChanged() {
        toServer.faultsChanged()
        toClient.faultsChanged()
    }

    func close() {
        continuation.cancel(on: path.loop)
        upstream.close()
        toServer.close()
        toClient.close()
    }
}
