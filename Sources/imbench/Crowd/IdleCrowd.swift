import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

/// Holds very many idle clients of one transport, first cheap ones, to see what a server's side of a link costs, then ours.
struct IdleCrowd {
    /// Each needs a port of this machine's for the same address of the server; Linux has 28,000 by default.
    private static let linksPerAddress = 20_000
    /// How many handshakes are under way at a time.
    private static let atOnce = 128

    let transport: String
    let links: Int
    let hold: Duration
    let serverLoop: EventLoop
    let clientLoop: EventLoop

    func measure() async -> CrowdRow {
        var row = CrowdRow(transport: transport)
        do {
            let server = try await serverBytes()
            try await holdOurs(server, &row)
        } catch {
            row.failure = (error as? SystemFailure)?.message ?? "\(error)"
        }
        return row
    }

    // MARK: The server's side

    /// Bytes of heap that a link takes at the server, whose clients are bare sockets.
    private func serverBytes() async throws -> Double? {
        let servers = try await start()
        guard let hello = HostileScript.hello(transport) else { throw SystemFailure("no such client") }
        var clients: [RawConnection] = []
        clients.reserveCapacity(links)
        defer { for client in clients { client.close() } }
        let before = await settledHeap()
        var answered = 0
        var buffer = [UInt8](repeating: 0, count: 4096)
        while clients.count < links, !Interruption.isRequested {
            let place = clients.count / Self.linksPerAddress
            let client = try RawConnection(host: UInt8(place + 1), port: servers[place].endpoint.port ?? 0)
            clients.append(client)
            let words = hello.bytes.isEmpty ? hello.ping : hello.bytes
            guard client.send(words[...]) == words.count else { throw SystemFailure("a client could not say hello") }
            // Their answers are read a little later, so that the two sides need not wait for each other each time.
            while clients.count - answered >= (clients.count == links ? 1 : Self.atOnce) {
                guard buffer.withUnsafeMutableBytes({ clients[answered].drain($0) }) else {
                    throw SystemFailure("the server turned client \(answered + 1) away")
                }
                answered += 1
            }
        }
        let after = await settledHeap()
        let count = clients.count
        for client in clients { client.close() }
        clients = []
        for server in servers { await server.stop() }
        guard let before, let after else { return nil }
        // What comes next begins with a heap that holds nothing of this any more.
        _ = await settledHeap(below: before + (after - before) / 20)
        return Double(after - before) / Double(max(1, count))
    }

    // MARK: Both sides

    private func holdOurs(_ server: Double?, _ row: inout CrowdRow) async throws {
        let servers = try await start()
        let recipes = try servers.map { server throws(TransportError) in
            try TransportRegistry.standard.transport(for: server.endpoint, on: clientLoop)
        }
        let before = await settledHeap()
        let started = Clocks.monotonic()
        let links = try await connect(recipes)
        let seconds = Double(Clocks.monotonic() - started) / 1e9
        let after = await settledHeap()
        let (pings, rtt) = await ping(links)
        await close(links)
        for server in servers { await server.stop() }
        var client: Double?
        if let before, let after, let server { client = Double(after - before) / Double(max(1, links.count)) - server }
        let latency = Latency(rtt)
        row.metrics = [
            ("links", Double(links.count)), ("connect_s", seconds), ("links_per_s", Double(links.count) / seconds),
            ("server_bytes", server), ("client_bytes", client), ("pings", Double(pings)), ("pongs", Double(rtt.count)),
            ("ping_p50_us", latency.p50), ("ping_p99_us", latency.p99),
        ]
        if rtt.count < pings { row.failure = "\(pings - rtt.count) of \(pings) pings were not answered" }
    }

    private func start() async throws(TransportError) -> [EmbeddedServer] {
        var servers: [EmbeddedServer] = []
        for place in 0...(links - 1) / Self.linksPerAddress {
            // Each client waits for its turn; nobody is in a hurry.
            let url = "\(transport)://127.0.0.\(place + 1):0/?max-connections=1000000"
            servers.append(try await EmbeddedServer.start(url, on: serverLoop))
        }
        return servers
    }

    private func connect(_ recipes: [any Transport]) async throws -> [any Link] {
        try await withThrowingTaskGroup(of: (any Link).self) { group in
            var links: [any Link] = []
            links.reserveCapacity(self.links)
            for number in 0..<self.links where !Interruption.isRequested {
                if number >= Self.atOnce, let link = try await group.next() { links.append(link) }
                let recipe = recipes[number / Self.linksPerAddress]
                group.addTask(executorPreference: clientLoop) { try await recipe.connect(timeout: .seconds(30)) }
            }
            for try await link in group { links.append(link) }
            return links
        }
    }

    /// Pings every link once, spread over the time for which they are held; how many pings there were, and their round trips.
    private func ping(_ links: [any Link]) async -> (count: Int, rtt: Histogram) {
        let start = Clocks.monotonic()
        let step = hold.wholeNanoseconds / Int64(max(1, links.count))
        let workers = 64
        let loop = clientLoop
        return await withTaskGroup(of: (Int, Histogram).self) { group in
            for worker in 0..<workers {
                group.addTask(executorPreference: loop) {
                    var rtt = Histogram()
                    var count = 0
                    for number in stride(from: worker, to: links.count, by: workers) where !Interruption.isRequested {
                        await pause(on: loop, until: start + Int64(number) * step)
                        count += 1
                        let answer = try? await links[number].ping()
                        if let answer { rtt.record(answer.wholeNanoseconds) }
                    }
                    return (count, rtt)
                }
            }
            var all = (count: 0, rtt: Histogram())
            for await (count, rtt) in group {
                all.count += count
                all.rtt.merge(rtt)
            }
            return all
        }
    }

    private func close(_ links: [any Link]) async {
        await withTaskGroup(of: Void.self) { group in
            for (number, link) in links.enumerated() {
                if number >= Self.atOnce { await group.next() }
                group.addTask(executorPreference: clientLoop) { await link.close() }
            }
        }
    }

    /// The heap in use once it changes no more: what has just been closed takes a moment to be gone.
    private func settledHeap(below bound: Int = .max) async -> Int? {
        var last = HeapUse.now() ?? 0
        for _ in 0..<50 {
            await pause(on: clientLoop, until: Clocks.monotonic() + 200_000_000)
            guard let now = HeapUse.now() else { return nil }
            if abs(now - last) <= max(last / 1000, 4096), now <= bound { return now }
            last = now
        }
        return last
    }
}
