import CSocketIO
import CommandSupport
import Crowds
import EmbeddedServers
import Measuring
import Reporting
import SocketIO
import TransportAPI
import TrialCertificates

/// Holds many idle clients of one transport. The server is in this process and the clients are in another. Each connection
/// needs one descriptor in each process, and the growth of each heap is the memory of one end of the connections.
struct IdleCrowd {
    let transport: String
    let connections: Int
    let hold: Duration
    /// How many bytes each client sends and receives back before the memory is read again. With 0, there is no transfer.
    var transfer = 0
    /// The server's loop.
    let loop: EventLoop
    /// The program of the clients and its arguments; `nil` for this program.
    var program: [String]?
    /// How long each answer may take, beyond the time to hold and to connect.
    var answerTimeout = Duration.seconds(60)

    /// Measures the crowd. It blocks, so do not call it on the loop.
    func measure() -> CrowdRow {
        var row = CrowdRow(transport: transport)
        do throws(SystemFailure) {
            let servers = try start()
            defer { runBlocking(on: loop) { for server in servers { await server.stop() } } }
            try measure(servers, &row)
        } catch {
            row.failure = error.message
        }
        return row
    }

    private func measure(_ servers: [EmbeddedServer], _ row: inout CrowdRow) throws(SystemFailure) {
        let clients = try ClientsProcess(program, answerTimeout: answerTimeout)
        let before = heap()
        let kernelBefore = KernelMemory.now()
        let connected = try clients.connect(
            transport,
            connections,
            servers.map { $0.endpoint.port ?? 0 },
            for: transfer > 0 ? .transfer : .idle
        )
        let after = heap()
        let kernel = KernelMemory.now().flatMap { after in kernelBefore.flatMap { after.growth(since: $0) } }
        let pinged = try clients.ping(connected.connections, over: hold)
        let usedClient = transfer > 0 ? try clients.transfer(connected.connections, bytes: transfer) : nil
        let used = transfer > 0 ? heap() : nil
        try clients.end()
        let (count, seconds) = (Double(connected.connections), Double(connected.nanoseconds) / 1e9)
        func growth(_ after: Int?) -> Int? { before.flatMap { before in after.map { $0 - before } } }
        func each(_ bytes: Int?) -> Double? { count > 0 ? bytes.map { Double($0) / count } : nil }
        // Both ends of each connection are on this machine, and take nearly the same.
        func eachEnd(_ bytes: Int?) -> Double? { each(bytes).map { $0 / 2 } }
        func microseconds(_ nanoseconds: Int64?) -> Double? { nanoseconds.map { Double($0) / 1000 } }
        row.metrics = [
            ("connections", count), ("connect_s", seconds), ("connections_per_s", seconds > 0 ? count / seconds : nil),
            ("server_bytes", each(growth(after))), ("client_bytes", each(connected.heap)),
            ("server_used_bytes", each(growth(used))), ("client_used_bytes", each(usedClient)),
            ("server_kernel_bytes", eachEnd(kernel.flatMap { kernel in kernel.buffers.map { kernel.slab + $0 } })),
            ("kernel_slab_bytes", eachEnd(kernel?.slab)), ("kernel_buffer_bytes", eachEnd(kernel?.buffers)),
            ("pings", pinged.map { Double($0.pings) }), ("pongs", pinged.map { Double($0.pongs) }),
            ("ping_p50_us", microseconds(pinged?.p50)), ("ping_p99_us", microseconds(pinged?.p99)),
        ]
        if let pinged, pinged.pongs < pinged.pings {
            row.failure = "\(pinged.pings - pinged.pongs) of \(pinged.pings) pings were not answered"
        }
    }

    private func start() throws(SystemFailure) -> [EmbeddedServer] {
        let (transport, addresses, loop) = (transport, ClientsProcess.addresses(connections), loop)
        return try SystemFailure.translate { () throws(TransportError) in
            try tryBlocking(on: loop) { () async throws(TransportError) in
                var servers: [EmbeddedServer] = []
                do throws(TransportError) {
                    for place in 1...addresses {
                        let url = "\(transport)://127.0.0.\(place):0/?max-connections=1000000"
                        servers.append(try await EmbeddedServer.start(url, on: loop, registry: .trial))
                    }
                    return servers
                } catch {
                    for server in servers { await server.stop() }
                    throw error
                }
            }
        }
    }

    private func heap() -> Int? {
        let loop = loop
        return runBlocking(on: loop) { await HeapUse.settled(on: loop) }
    }
}
