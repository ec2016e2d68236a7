import SocketIO
import TransportAPI

/// The proxy of transports over TCP. Lives on its loop.
final class StreamProxy: PollHandler, ProxyEngine {
    let path: ProxyPath
    let address: SocketAddress
    private let host: String
    private let port: UInt16
    private var listener: ListeningSocket?
    private var connections: [UInt64: StreamConnection] = [:]
    private var lastNumber: UInt64 = 0
    /// Holds the port while clients are refused.
    private var reserved: ReservedPort?
    private var isStopped = false
    private var retry = WakeUp()

    /// Listens at a port of this machine, for connections to `host`.
    init(to host: String, port: UInt16, _ path: ProxyPath) throws(SystemError) {
        self.path = path
        self.host = host
        self.port = port
        let socket = try ListeningSocket(boundTo: FaultProxy.anyPort(), on: path.loop)
        guard let local = socket.local else { throw SystemError("getsockname", ENOTSOCK) }
        address = local
        listener = socket
        try socket.attach(self)
    }

    var load: (clients: Int, bytesHeld: Int) {
        (connections.count, connections.values.reduce(0) { $0 + $1.bytesHeld })
    }

    func ready(_: Readiness) {
        acceptWhilePossible()
    }

    private func acceptWhilePossible() {
        while let listener, connections.count < FaultProxy.maximumClients {
            do throws(SystemError) {
                guard let client = try listener.accept() else { return }
                adopt(client)
            } catch {
                // No descriptors are left, most likely; the poller won't report the waiting connection again.
                return retry.set(path.loop.now + 100_000_000, on: path.loop) { [self] in
                    retry.rang()
                    acceptWhilePossible()
                }
            }
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
        if on {
            retry.cancel(on: path.loop)
            listener?.close()
            listener = nil
            reserved = try ReservedPort(address, isDatagram: false)
        } else {
            reserved = nil
            let socket = try ListeningSocket(boundTo: address, on: path.loop)
            try socket.attach(self)
            listener = socket
        }
    }

    /// A connection does not outlive a change of its address; ``cut(_:)`` is what that comes to.
    func rebindClients() {}

    func stop() {
        isStopped = true
        reserved = nil
        retry.cancel(on: path.loop)
        listener?.close()
        listener = nil
        cut(.reset)
    }
}
