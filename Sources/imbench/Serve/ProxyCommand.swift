import CommandSupport
import EmbeddedServers
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// The path of `imbench serve --proxy`.
struct ProxyOptions: Sendable, Equatable {
    /// The server behind the path, in place of the embedded ones; `nil` if they are served.
    var target: Endpoint?
    var faults = PathFaults.none

    static func list(_ vocabulary: Vocabulary) -> OptionList<ProxyOptions> {
        var list = OptionList(ProxyOptions())
        list.add(
            .path,
            excludes: "listen",
            [
                Setting(
                    "proxy",
                    // The transports compared by default are those with a network.
                    SettingFormat.url(of: vocabulary.defaultTransports).orAbsent(""),
                    \.target,
                    "a proxy to this server in place of the embedded ones, with these faults on the path"
                )
            ]
        )
        list.add(
            .path,
            requires: "proxy",
            [
                Setting("delay", .upToHour(), \.faults.delay, "latency in each direction"),
                Setting("jitter", .upToHour(), \.faults.jitter, "largest random addition to the delay"),
                Setting(
                    "throttle",
                    SettingFormat.bytes(1...1_000_000_000_000).orAbsent("no limit"),
                    \.faults.bytesPerSecond,
                    "bytes per second in each direction of each connection"
                ),
                Setting("loss", .share, \.faults.loss, "lost datagrams in each direction"),
                Setting("duplicate", .share, \.faults.duplication, "datagrams that arrive twice"),
                Setting("reorder", .share, \.faults.reordering, "datagrams that arrive after the next one"),
            ]
        )
        return list
    }
}

/// `imbench serve --proxy`: puts a faulty path before a server until it is interrupted. Prints the URL of the path, and at
/// the end its statistics.
func serveProxy(to target: Endpoint, _ options: ServeCommand) throws -> Int32 {
    try checkURL(target, "--proxy", .trial)
    let seed = runSeed(options.seed)
    let faults = options.proxy.faults
    let proxy = try SystemFailure.translate { () throws(TransportError) in
        try tryBlocking(on: .shared) { () async throws(TransportError) in
            let proxy = try await FaultProxy.start(to: target, seed: seed)
            await proxy.set(faults)
            return proxy
        }
    }
    try ReportTarget().write("\(proxy.endpoint)\n")
    remark("a path to \(target) until interrupted; seed \(seed)", isQuiet: options.general.isQuiet)
    let transport = TransportRegistry.trial.transports.first { $0.name == target.scheme }
    if transport?.isDatagram == false, faults.loss + faults.duplication + faults.reordering > 0 {
        remark(
            "\(target.scheme) is a stream, so --loss, --duplicate and --reorder have no effect",
            isQuiet: options.general.isQuiet
        )
    }
    let statistics = runBlocking(on: .shared) {
        await untilInterrupted()
        let statistics = await proxy.statistics()
        await proxy.stop()
        return statistics
    }
    try ReportTarget().write(proxyReport(statistics, isDatagram: transport?.isDatagram == true))
    return ExitStatus.good
}

/// The statistics of a proxy, one per line.
func proxyReport(_ statistics: FaultStatistics, isDatagram: Bool) -> String {
    var rows: [(name: String, value: UInt64)] = [
        (isDatagram ? "clients" : "connections", statistics.connections),
        ("without server", statistics.failedConnections),
        ("bytes to server", statistics.bytesToServer),
        ("bytes to client", statistics.bytesToClient),
    ]
    if isDatagram {
        rows += [
            ("datagrams to server", statistics.datagramsToServer),
            ("datagrams to client", statistics.datagramsToClient),
            ("lost", statistics.lost),
            ("duplicated", statistics.duplicated),
            ("reordered", statistics.reordered),
            ("overflowed", statistics.overflowed),
        ]
    }
    return rows.map { "\($0.name.padded(to: 21))\(String($0.value).padded(to: 12, alignedRight: true))\n" }.joined()
}
