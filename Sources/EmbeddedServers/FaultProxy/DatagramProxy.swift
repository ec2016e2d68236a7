import SocketIO
import TransportAPI
import Transports

/// The proxy of transports over UDP. It has one socket for all clients, and one socket to the server for each client.
/// It is used on its loop only.
final class DatagramProxy: PollHandler, ProxyEngine {
    let path: ProxyPath
    /// Reserves the port, even while clients are refused.
    private let reserved: ReservedPort
    private let target: SocketAddress
    private var socket: DatagramSocket?
    private var clients: [SocketAddress: DatagramClient] = [:]
    private var lastNumber: UInt64 = 0
    private var isStopped = false
    private var continuation = WakeUp()
    /// The memory into which all sockets are read.
    private let batch = DatagramBatch(largest: 65_507)

    /// Receives datagrams for `target` at a port of this machine.
    init(to target: SocketAddress, _ path: ProxyPath, at host: String) throws(SystemError) {
        self.path = path
        self.target = target
        reserved = try ReservedPort(isDatagram: true, host: host)
        try open()
    }

    var address: SocketAddress { reserved.address }

    private func open() throws(SystemError) {
        let fresh = try DatagramSocket(boundTo: address, on: path.loop)
        try fresh.attach(self)
        socket = fresh
    }

    var load: (clients: Int, bufferedBytes: Int) {
        (clients.count, clients.values.reduce(0) { $0 + $1.bufferedBytes })
    }

    func ready(_: Readiness) {
        // During a longer emptying, new datagrams wait for its next step.
        if !continuation.isSet { readAll() }
    }

    private func readAll() {
        guard let socket else { return }
        let isEmpty = receive(from: socket) { bytes, sender in
            if let sender { client(at: sender)?.takeFromClient(bytes) }
        }
        guard !isEmpty else { return }
        continuation.set(path.loop.now, on: path.loop) { [self] in
            continuation.rang()
            readAll()
        }
    }

    /// Calls `body` with each datagram that is queued in `socket`, within the time of a ``ReadBudget``: a peer that sends
    /// faster than this proxy receives would otherwise keep the loop here. Returns `false` if the rest must wait for the
    /// next tick.
    func receive(from socket: DatagramSocket, _ body: ([UInt8], SocketAddress?) -> Void) -> Bool {
        let budget = ReadBudget(MonotonicClock.now())
        // An error that the network has reported comes before the datagrams. Reading removes it.
        var errors = 0
        while errors < 16 {
            switch socket.receive(into: batch) {
            case .bytes:
                while let datagram = batch.takeNext({ Array($0) }) { body(datagram, batch.lastSender) }
                if batch.wasLast { return true }
                if budget.isOver(MonotonicClock.now()) { return false }
            case .wouldBlock, .end: return true
            case .failed, .insecure: errors += 1
            }
        }
        return true
    }

    func send(_ bytes: UnsafeRawBufferPointer, to client: SocketAddress) -> IOResult {
        socket?.send(bytes, to: client) ?? .wouldBlock
    }

    /// Returns the client with this address, which may be a new one. If there are too many, the new one replaces the
    /// client that has been silent for longest. Returns `nil` if the system has no sockets left.
    private func client(at address: SocketAddress) -> DatagramClient? {
        if let known = clients[address] { return known }
        if clients.count >= FaultProxy.maximumClients,
            let silent = clients.min(by: { $0.value.lastHeard < $1.value.lastHeard })
        {
            clients[silent.key] = nil
            silent.value.close()
        }
        do throws(SystemError) {
            let client = try DatagramClient(address, number: lastNumber + 1, of: self, target)
            lastNumber += 1
            path.statistics.connections += 1
            clients[address] = client
            return client
        } catch {
            path.statistics.failedConnections += 1
            return nil
        }
    }

    func faultsChanged() {
        for client in clients.values { client.faultsChanged() }
    }

    func cut(_: FaultProxy.Cut) {
        for client in clients.values { client.close() }
        clients = [:]
    }

    func refuse(_ on: Bool) throws(SystemError) {
        guard !isStopped, on == (socket != nil) else { return }
        if on { closeSocket() } else { try open() }
    }

    private func closeSocket() {
        continuation.cancel(on: path.loop)
        socket?.close()
        socket = nil
    }

    func rebindClients() {
        for client in clients.values { client.rebind() }
    }

    func stop() {
        isStopped = true
        closeSocket()
        cut(.reset)
    }
}
