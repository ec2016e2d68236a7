import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

/// `imbench serve`: runs the embedded servers until it is interrupted, and prints where each listens.
func serve(_ options: Options) throws(SystemFailure) -> Int32 {
    if let target = options.proxy { return try serveProxy(to: target, options) }
    let registry = TransportRegistry.standard
    // What has no port can't be reached from outside.
    let reachable = registry.transports.filter { $0.defaultPort != nil }
    let urls =
        options.listen.isEmpty
        ? reachable.map { "\($0.name)://127.0.0.1:0" } : options.listen.map(\.description)
    let started: Result<[EmbeddedServer], TransportError> = runBlocking(on: .shared) {
        do throws(TransportError) {
            var servers: [EmbeddedServer] = []
            for url in urls { servers.append(try await EmbeddedServer.start(url, .echo, registry: registry)) }
            return .success(servers)
        } catch {
            return .failure(error)
        }
    }
    let servers: [EmbeddedServer]
    switch started {
    case .success(let all): servers = all
    case .failure(let error): throw SystemFailure("\(error)")
    }
    let lines = servers.map { "\($0.endpoint.scheme.padded(to: 8))\($0.endpoint)\n" }.joined()
    try ReportTarget(path: nil).write(lines)
    remark("serving until interrupted; MQTT is a broker, all others send each message back", isQuiet: options.quiet)
    runBlocking(on: .shared) {
        await untilInterrupted()
        for server in servers { await server.stop() }
    }
    return ExitStatus.good
}

/// Waits for Ctrl-C.
func untilInterrupted() async {
    while !Interruption.isRequested {
        await withCheckedContinuation { continuation in
            EventLoop.shared.execute {
                _ = EventLoop.shared.schedule(at: Clocks.monotonic() + 100_000_000) { continuation.resume() }
            }
        }
    }
}
