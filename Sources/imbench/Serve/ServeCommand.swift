import CommandSupport
import EmbeddedServers
import Foundation
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// `imbench serve`: runs the embedded servers until it is interrupted, and prints their URLs. A chat server over WebSocket also
/// serves a page for browsers.
struct ServeCommand: RunnableCommand {
    static let command = Command(
        name: "serve",
        summary: "run the embedded servers until interrupted",
        examples: [
            .init("imbench serve --listen ws://127.0.0.1:8080", "an echo server"),
            .init("imbench serve --chat --listen ws://[::1]:8080 --listen udp://[::1]:8081", "one chat room"),
            .init("imbench serve --proxy udp://127.0.0.1:8081 --loss 2% --delay 50ms", "a bad path to it"),
        ]
    )

    var general = GeneralOptions()
    /// The addresses of the servers. If empty, all transports listen on ports chosen by the system.
    var listen: [Endpoint] = []
    /// A configuration file, which names the addresses.
    var config: String?
    /// Whether encrypted servers are added to those that the command chooses.
    var usesTLS = false
    /// Whether the servers share one chat room.
    var isChat = false
    /// The users that the broker accepts. If empty, it accepts all clients.
    var users: [ServedUser] = []
    /// The origins and Host headers that the WebSocket servers admit, written as in their URLs.
    var origins: String?
    var hosts: String?
    var proxy = ProxyOptions()
    var seed: UInt64?

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<ServeCommand> {
        var list = OptionList(ServeCommand())
        let names = SettingFormat<String>.text(1...8192).called("LIST")
        list.add(.what, [.tls(\.usesTLS)])
        list.add(
            .what,
            excludes: "proxy",
            [
                Setting(
                    "listen",
                    each: SettingFormat.url(of: vocabulary.transports)
                        .withDefault("one server of each transport, on free ports of 127.0.0.1"),
                    atMost: 64,
                    \.listen,
                    "the address of a server, as in ws://[::1]:8080; may be repeated"
                ),
                Setting(
                    "user",
                    each: ServedUser.format,
                    atMost: 64,
                    \.users,
                    "a user of the broker, which then rejects all others; may be repeated"
                ),
                Setting(
                    "origins",
                    names.orAbsent("same"),
                    \.origins,
                    "web pages that the WebSocket servers admit: same, null (pages from disk), any, or origins"
                ),
                Setting(
                    "hosts",
                    names.orAbsent("loopback,address for clients on this machine, any for others"),
                    \.hosts,
                    "Host headers that the WebSocket servers admit: loopback, address, any, or hosts"
                ),
            ]
        )
        list.add(
            .what,
            [
                Setting(
                    "chat",
                    .mark(on: "yes"),
                    \.isChat,
                    "serve one chat room on all transports in place of echoes"
                )
            ]
        )
        list.add(.what, excludes: "listen", [.config(\.config)])
        list.add(ProxyOptions.list(vocabulary), at: \.proxy)
        list.add(.load, [.seed(\.seed)])
        return list
    }

    func check(_ line: TypedLine, _: Vocabulary) throws(UsageError) {
        if !users.isEmpty, !listen.isEmpty, !listen.contains(where: { TransportRegistry.hasBroker($0.scheme) }) {
            throw UsageError("--user is for a broker, and no --listen has a scheme of MQTT or STOMP")
        }
        try refusePlain(listen + [proxy.target].compactMap { $0 }, usesTLS: usesTLS)
        if config != nil, line.has("proxy") { throw .exclusion("config", "proxy") }
    }

    func run() throws -> Int32 {
        guard let target = proxy.target else { return try serve(self) }
        return try serveProxy(to: target, self)
    }
}

/// A user of the broker of `serve`.
struct ServedUser: Sendable, Equatable {
    var name: String
    @Secret var password: String

    /// Reads `NAME:PASSWORD`; a password may have colons.
    init(_ text: String) throws(UsageError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        // The value may be a password, so the error does not quote it.
        guard parts.count == 2, !parts[0].isEmpty else {
            throw UsageError("--user needs NAME:PASSWORD, but the value has no \(parts.count == 2 ? "name" : "colon")")
        }
        name = String(parts[0])
        password = String(parts[1])
    }

    /// Reports do not contain it.
    static let format = SettingFormat<String>.text("a user").called("NAME:PASSWORD").read(
        by: { (text) throws(UsageError) in try ServedUser(text) },
        back: { _ in nil }
    ).withDefault("all clients are accepted")
}

private func serve(_ options: ServeCommand) throws -> Int32 {
    let registry = TransportRegistry.available
    if let config = options.config {
        let configured = try UsageError.translate("--config") { () throws(TransportError) in
            try readConfiguration(config).endpoints
        }
        try refusePlain(configured, usesTLS: options.usesTLS)
    }
    let urls = try UsageError.translate(options.config == nil ? "'serve'" : "--config") { () throws(TransportError) in
        try servedURLs(options, registry)
    }
    let room = options.isChat ? ChatRoom() : nil
    let log = options.general.isQuiet ? nil : EndingLog()
    let servers = try urls.map { (url) throws -> Served in
        do throws(TransportError) {
            return try tryBlocking(on: .shared) { () async throws(TransportError) in
                try await Served.start(url, room, options.users, registry, log)
            }
        } catch {
            throw failure(error, at: url, "--listen")
        }
    }
    // The page is the quickest way into the room, so it comes first.
    let pages = room == nil ? [] : servers.compactMap { ChatPage.url(of: $0.endpoint) }
    let addresses = pages.map { ("page", $0) } + servers.map { ($0.endpoint.scheme, $0.endpoint.description) }
    let width = (addresses.map { $0.0.count }.max() ?? 0) + 2
    try ReportTarget().write(addresses.map { "\($0.padded(to: width))\($1)\n" }.joined())
    let authority = try writeAuthority(of: urls)
    defer { if let authority { try? FileManager.default.removeItem(atPath: authority.folder) } }
    let others = options.isChat ? "share one chat room" : "send each message back"
    remark("serving until interrupted; MQTT and STOMP: brokers, all others \(others)", isQuiet: options.general.isQuiet)
    runBlocking(on: .shared) {
        await untilInterrupted()
        for server in servers { await server.stop() }
    }
    return ExitStatus.good
}

/// Writes the certificate of this run's authority to a file in a folder of its own, and says how clients trust it, if a
/// server needs it.
private func writeAuthority(of urls: [String]) throws -> (folder: String, path: String)? {
    let endpoints = urls.compactMap { try? Endpoint($0) }
    let isNeeded = endpoints.contains { endpoint in
        TransportRegistry.available.transports.contains { $0.name == endpoint.scheme && $0.isEncrypted }
            && !endpoint.options.contains { $0.name == "certificate" }
    }
    guard isNeeded, let credentials = try? TrialTLS.credentials.get() else { return nil }
    // A folder with a new name, because another user could have made the file before, as a link to another one.
    var name = Array((FileManager.default.temporaryDirectory.path + "/imbench-XXXXXX").utf8CString)
    guard mkdtemp(&name) != nil else { throw SystemFailure("cannot make a temporary folder", errno: errno) }
    let folder = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    // Clients of other users read the certificate.
    chmod(folder, 0o755)
    let path = folder + "/ca.pem"
    try ReportTarget(path: path).write(credentials.authority)
    remark("clients trust the encrypted servers with the option ca=\(path)")
    return (folder, path)
}

/// The URLs of the servers: from the command line, or from the configuration file, or one of each transport.
private func servedURLs(_ options: ServeCommand, _ registry: TransportRegistry) throws(TransportError) -> [String] {
    var endpoints = options.listen
    if let config = options.config { endpoints = try readConfiguration(config).endpoints }
    if endpoints.isEmpty {
        // A transport without a port cannot be reached from outside.
        for transport in registry.transports
        where transport.defaultPort != nil && (options.usesTLS || !transport.isEncrypted) {
            endpoints.append(Endpoint(scheme: transport.name, host: "127.0.0.1", port: 0))
        }
    }
    for (name, value) in [("origins", options.origins), ("hosts", options.hosts)] {
        guard let value else { continue }
        let takers = endpoints.indices.filter { index in
            registry.transports.contains { transport in
                transport.name == endpoints[index].scheme && transport.hasSetting(name)
            }
        }
        guard !takers.isEmpty else {
            throw .configuration("--\(name)", "is for servers over WebSocket, and none of these is one")
        }
        for index in takers { endpoints[index].options.append(.init(name: name, value: value)) }
    }
    return endpoints.map(\.description)
}

/// Waits for Ctrl-C.
func untilInterrupted() async {
    while !Interruption.isRequested { await EventLoop.shared.pause(.milliseconds(100)) }
}

/// A server of either kind.
private struct Served: Sendable {
    var endpoint: Endpoint
    var stop: @Sendable () async -> Void

    static func start(
        _ url: String,
        _ room: ChatRoom?,
        _ users: [ServedUser],
        _ registry: TransportRegistry,
        _ log: EndingLog?
    ) async throws(TransportError) -> Served {
        if !users.isEmpty, TransportRegistry.hasBroker(try Endpoint(url).scheme) {
            let server = try await EmbeddedServer.startBroker(url, registry: registry) { client in
                users.contains { client.match(user: $0.name, password: $0.password) } ? .accept : .wrongCredentials
            } observer: {
                log?.take($0)
            }
            return Served(endpoint: server.endpoint) { await server.stop() }
        }
        if let room {
            let endpoint = try Endpoint(url)
            let path = endpoint.path.isEmpty ? "/" : endpoint.path
            var (served, pages) = (url, [WebPage]())
            if ChatPage.url(of: endpoint) != nil {
                // The page must reach the server from networks that block WebSocket too.
                let fallback = endpoint.options.first { $0.name == "fallback" }?.value
                if fallback == nil { served += "\(url.contains("?") ? "&" : "?")fallback=on" }
                pages = [try ChatPage.page(socketPath: path, hasFallback: fallback.map { $0 == "on" } ?? true)]
            }
            let server = try await ChatServer.start(served, room: room, registry: registry, pages: pages) {
                log?.take($0)
            }
            return Served(endpoint: server.endpoint) { await server.stop() }
        }
        let server = try await EmbeddedServer.start(url, .echo, registry: registry) { log?.take($0) }
        return Served(endpoint: server.endpoint) { await server.stop() }
    }
}

/// Logs on standard error which clients a server has ended or rejected, and why. The number of lines per second is limited,
/// because a flood of clients must not become a flood of lines.
final class EndingLog: Sendable {
    private static let linesPerSecond = 10

    private struct State {
        var second: Int64 = 0
        var written = 0
        var dropped = 0
    }

    private let state = Locked(State())

    func take(_ note: ServerEvent) {
        if let line = line(for: note, at: Clocks.monotonic()) { remark(ChatLine.printable(line)) }
    }

    /// The line for an event at this time, in nanoseconds; `nil` for a normal close or beyond the limit.
    func line(for note: ServerEvent, at now: Int64) -> String? {
        guard note.reason.error != nil else { return nil }
        return state.withLock { state in
            let second = now / 1_000_000_000
            if second != state.second { (state.second, state.written) = (second, 0) }
            guard state.written < Self.linesPerSecond else {
                state.dropped += 1
                return nil
            }
            defer { (state.written, state.dropped) = (state.written + 1, 0) }
            return (state.dropped > 0 ? "(\(state.dropped) more before) " : "") + "\(note)"
        }
    }
}
