import SocketIO
import TransportAPI

/// The proxy of transports over TCP. Lives on its loop.
final class StreamProxy: PollHandler, ProxyEngine {
    let path: ProxyPath
    /// Holds the port, also while clients are refused.
    private let reserved: ReservedPort
    private let host: String
    private let port: UInt16
    private var listener: ListeningSocket?
    private var connections: [UInt64: StreamConnection] = [:]
    private var lastNumber: UInt64 = 0
    private var isStopped = false
    private var retry = WakeUp()

    /// Listens at a port of this machine, for connections to `host`.
    init(to host: String, port: UInt16, _ path: ProxyPath) throws(SystemError) {
        self.path = path
        self.host = host
        self.port = port
        reserved = try ReservedPort(isDatagram: false)
        try listen()
    }

    var address: SocketAddress { reserved.address }

    private func listen() throws(SystemError) {
        let socket = try ListeningSocket(boundTo: address, on: path.loop)
        try socket.attach(self)
        listener = socket
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
        if on { stopListening() } else { try listen() }
    }

    private func stopListening() {
        retry.cancel(on: path.loop)
        listener?.close()
        listener = nil
    }

    /// A connection does not outlive a change of its address; ``cut(_:)`` is what that comes to.
    func rebindClients() {}

    func stop() {
        isStopped = true
        stopListening()
        cut(.reset)
    }
}
