import EmbeddedServers
import SocketIO
import TransportAPI

/// Holds very many idle clients of one transport. The server is in this process and the clients are in another: each
/// connection needs one descriptor of either, and what the heap of each has grown by is what its side of the
/// connections takes.
struct IdleCrowd {
    /// Each needs a port of this machine's for the same address of the server; Linux has 28,000 by default.
    static let connectionsPerAddress = 20_000

    /// How many addresses so many connections need.
    static func addresses(_ connections: Int) -> Int { (connections - 1) / connectionsPerAddress + 1 }

    let transport: String
    let connections: Int
    let hold: Duration
    /// The server's.
    let loop: EventLoop
    /// What is started for the clients, and its arguments; `nil` is this program.
    var program: [String]?
    /// How long the clients may take for each answer, beyond the time that holding and connecting take.
    var patience = Duration.seconds(60)

    /// Measures, on a thread that may wait and is not the loop's.
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
        let clients = try ClientsProcess(program, patience: patience)
        let before = heap()
        let connected = try clients.connect(transport, connections, servers.map { $0.endpoint.port ?? 0 })
        let after = heap()
        let pinged = try clients.ping(connected.connections, over: hold)
        try clients.end()
        let (count, seconds) = (Double(connected.connections), Double(connected.nanoseconds) / 1e9)
        let server = before.flatMap { before in after.map { $0 - before } }
        func each(_ bytes: Int?) -> Double? { count > 0 ? bytes.map { Double($0) / count } : nil }
        func microseconds(_ nanoseconds: Int64?) -> Double? { nanoseconds.map { Double($0) / 1000 } }
        row.metrics = [
            ("connections", count), ("connect_s", seconds), ("connections_per_s", seconds > 0 ? count / seconds : nil),
            ("server_bytes", each(server)), ("client_bytes", each(connected.heap)),
            ("pings", Double(pinged.pings)), ("pongs", Double(pinged.pongs)),
            ("ping_p50_us", microseconds(pinged.p50)), ("ping_p99_us", microseconds(pinged.p99)),
        ]
        let lost = pinged.pings - pinged.pongs
        if lost > 0 { row.failure = "\(lost) of \(pinged.pings) pings were not answered" }
    }

    private func start() throws(SystemFailure) -> [EmbeddedServer] {
        let (transport, addresses, loop) = (transport, Self.addresses(connections), loop)
        let started: Result<[EmbeddedServer], TransportError> = runBlocking(on: loop) {
            var servers: [EmbeddedServer] = []
            do throws(TransportError) {
                for place in 1...addresses {
                    // Each client waits for its turn; nobody is in a hurry.
                    let url = "\(transport)://127.0.0.\(place):0/?max-connections=1000000"
                    servers.append(try await EmbeddedServer.start(url, on: loop))
                }
                return .success(servers)
            } catch {
                for server in servers { await server.stop() }
                return .failure(error)
            }
        }
        do throws(TransportError) {
            return try started.get()
        } catch {
            throw SystemFailure("\(error)")
        }
    }

    private func heap() -> Int? {
        let loop = loop
        return runBlocking(on: loop) { await HeapUse.settled(on: loop) }
    }
}
