import Primitives
import SocketIO
import TransportAPI

/// A client's connection and the connection to the server that belongs to it. It is used on its loop only.
final class StreamConnection {
    /// How long the connection to the server may take to open, in nanoseconds.
    private static var connectTimeout: Int64 { 10_000_000_000 }
    /// How long both peers may take to close their ends after a cut, in nanoseconds.
    private static var linger: Int64 { 2_000_000_000 }

    let path: ProxyPath
    /// The number of this connection among those of its proxy.
    let number: UInt64
    private let client: StreamSocket
    private var server: StreamSocket?
    private var toServer: StreamFlow?
    private var toClient: StreamFlow?
    private var attempt: Task<Void, Never>?
    private var lingering = WakeUp()
    private var draining = WakeUp()
    private var isDraining = false
    private var isClosed = false
    private var onClosed: ((StreamConnection) -> Void)?

    init(
        _ client: StreamSocket,
        number: UInt64,
        _ path: ProxyPath,
        onClosed: @escaping (StreamConnection) -> Void
    ) {
        self.client = client
        self.number = number
        self.path = path
        self.onClosed = onClosed
    }

    var bufferedBytes: Int { (toServer?.bufferedBytes ?? 0) + (toClient?.bufferedBytes ?? 0) }

    /// Connects to the server. If it cannot be reached, the client is reset.
    func connect(to host: String, port: UInt16) {
        let loop = path.loop
        let this = LoopBound(self, to: loop)
        let deadline = loop.now + Self.connectTimeout
        attempt = Task(executorPreference: loop) {
            do throws(ConnectError) {
                let socket = try await StreamSocket.connect(to: host, port: port, on: loop, deadline: deadline)
                loop.execute { this.value.connected(socket.value) }
            } catch {
                loop.execute { this.value.notConnected() }
            }
        }
    }

    private func connected(_ server: StreamSocket) {
        guard !isClosed else { return server.close(abort: true) }
        self.server = server
        toServer = StreamFlow(self, .toServer, from: client, to: server)
        toClient = StreamFlow(self, .toClient, from: server, to: client)
        do throws(SystemError) {
            try client.attach(SideHandler(self, client, read: .toServer, written: .toClient))
            try server.attach(SideHandler(self, server, read: .toClient, written: .toServer))
        } catch {
            close(abort: true)
        }
    }

    private func notConnected() {
        guard !isClosed else { return }
        path.statistics.failedConnections += 1
        close(abort: true)
    }

    func faultsChanged() {
        toServer?.faultsChanged()
        toClient?.faultsChanged()
    }

    func cut(_ how: FaultProxy.Cut) {
        guard how == .finish, toServer != nil else { return close(abort: how == .reset) }
        toServer?.finish()
        toClient?.finish()
    }

    func close(abort: Bool) {
        guard !isClosed else { return }
        isClosed = true
        attempt?.cancel()
        lingering.cancel(on: path.loop)
        draining.cancel(on: path.loop)
        toServer?.close()
        toClient?.close()
        client.close(abort: abort)
        server?.close(abort: abort)
        onClosed.take()?(self)
    }

    // MARK: Events of the flows

    func broke(sourceOf way: PathWay) {
        flow(opposite(way))?.sinkBroke()
        flow(way)?.sourceBroke()
    }

    func broke(sinkOf way: PathWay) {
        broke(sourceOf: opposite(way))
    }

    /// Handles a flow that has written its end. After both have, the sockets are still read until the peers close as
    /// well, because closing at once would answer their last bytes by a reset.
    func flowEnded() {
        guard !isClosed, !isDraining, toServer?.isOver == true, toClient?.isOver == true else { return }
        isDraining = true
        lingering.set(path.loop.now + Self.linger, on: path.loop) { [self] in
            lingering.rang()
            close(abort: false)
        }
        drain()
    }

    fileprivate func ready(_ readiness: Readiness, read: PathWay, written: PathWay) {
        if readiness.contains(.write) { flow(written)?.sinkIsWritable() }
        if readiness.contains(.read) { flow(read)?.sourceIsReadable() }
        if isDraining { drain() }
    }

    private func drain() {
        let isLeft = [toServer?.drain(), toClient?.drain()].contains(true)
        if isLeft {
            draining.set(path.loop.now, on: path.loop) { [self] in
                draining.rang()
                drain()
            }
        }
        if toServer?.sourceEnded == true, toClient?.sourceEnded == true { close(abort: false) }
    }

    private func flow(_ way: PathWay) -> StreamFlow? { way == .toServer ? toServer : toClient }
    private func opposite(_ way: PathWay) -> PathWay { way == .toServer ? .toClient : .toServer }
}

/// Passes the readiness of a socket to its connection. The loop keeps it and the connection alive until the socket is
/// closed.
private final class SideHandler: PollHandler {
    private let connection: StreamConnection
    private let socket: StreamSocket
    private let read: PathWay
    private let written: PathWay

    init(_ connection: StreamConnection, _ socket: StreamSocket, read: PathWay, written: PathWay) {
        self.connection = connection
        self.socket = socket
        self.read = read
        self.written = written
    }

    func ready(_ readiness: Readiness) {
        socket.note(readiness)
        connection.ready(readiness, read: read, written: written)
    }
}
