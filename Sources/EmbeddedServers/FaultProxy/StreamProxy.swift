import SocketIO
import TransportAPI

/// The proxy of transports over TCP. It is used on its loop only.
final class StreamProxy: PollHandler, ProxyEngine {
    let path: ProxyPath
    /// Reserves the port, even while clients are refused.
    private let reserved: ReservedPort
    private let host: String
    private let port: UInt16
    private var listener: ListeningSocket?
    private var connections: [UInt64: StreamConnection] = [:]
    private var lastNumber: UInt64 = 0
    private var isStopped = false
    private var retry = WakeUp()

    /// Listens at a port of this machine. Connections are forwarded to `host`.
    init(to host: String, port: UInt16, _ path: ProxyPath, at ownHost: String) throws(SystemError) {
        self.path = path
        self.host = host
        self.port = port
        reserved = try ReservedPort(isDatagram: false, host: ownHost)
        try listen()
    }

    var address: SocketAddress { reserved.address }

    private func listen() throws(SystemError) {
        let socket = try ListeningSocket(boundTo: address, on: path.loop)
        try socket.attach(self)
        listener = socket
    }

    var load: (clients: Int, bufferedBytes: Int) {
        (connections.count, connections.values.reduce(0) { $0 + $1.bufferedBytes })
    }

    func ready(_: Readiness) {
        acceptWhilePossible()
    }

    /// Accepts for the time of one step: many clients that connect at once would otherwise keep the loop here.
    private func acceptWhilePossible() {
        let end = path.loop.budgetEnd
        while let listener, connections.count < FaultProxy.maximumClients {
            do throws(SystemError) {
                guard let client = try listener.accept() else { return }
                adopt(client)
            } catch {
                // Probably no descriptors are left. The poller does not report the queued connection again.
                return acceptAgain(at: path.loop.now + 100_000_000)
            }
            guard MonotonicClock.now() < end else { return acceptAgain(at: path.loop.now) }
        }
    }

    private func acceptAgain(at time: Int64) {
        retry.set(time, on: path.loop) { [self] in
            retry.rang()
            acceptWhilePossible()
        }
    }

    private func adopt(_ client: StreamSocket) {
        lastNumber += 1
        path.statistics.connections += 1
        let connection = StreamConnection(client, number: lastNumber, path) { [self] in forget($0) }
        connections[lastNumber] = connection
        connection.connect(to: host, port: port)
    }

    private func forget(_ connection: StreamConnection) {
        let wasFull = connections.count == FaultProxy.maximumClients
        connections[connection.number] = nil
        if wasFull { acceptWhilePossible() }
    }

    func faultsChanged() {
        for connection in Array(connections.values) { connection.faultsChanged() }
    }

    func cut(_ how: FaultProxy.Cut) {
        for connection in Array(connections.values) { connection.cut(how) }
    }

    func refuse(_ on: Bool) throws(SystemError) {
        guard !isStopped, on == (listener != nil) else { return }
        if on { stopListening() } else { try listen() }
    }

    private func stopListening() {
        retry.cancel(on: path.loop)
        listener?.close()
        listener = nil
    }

    /// Does nothing, because a TCP connection ends when its address changes. ``cut(_:)`` simulates that.
    func rebindClients() {}

    func stop() {
        isStopped = true
        stopListening()
        cut(.reset)
    }
}
