import CommandSupport
import Crowds
import EmbeddedServers
import Measuring
import Reporting
import SocketIO
import TransportAPI
import Transports

/// `imbench crowd`: holds a crowd of idle clients.
struct CrowdCommand: RunnableCommand {
    static let command = Command(
        name: "crowd",
        summary: "hold thousands of idle clients: memory, time to connect and round trips",
        examples: [
            .init("imbench crowd --idle 1000 --transport ws,tcp", "a thousand clients over each of two transports"),
            .init("imbench crowd --assert 'ws.server_bytes < 65536'", "a check for scripts"),
        ]
    )

    private static let usualConnections = 10_000

    var general = GeneralOptions()
    /// Names of transports, in the order of the command line.
    var transports = [TransportDescriptor.webSocket.name]
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    /// How many idle clients the user wants; `nil` if no number was given.
    var idle: Int?
    /// How long they are held and pinged.
    var hold = Duration.seconds(3)
    /// How many bytes each client sends and receives back before the memory is read again.
    var transfer = 0
    var report = ReportOptions()
    var assertions: [Assertion] = []

    /// How many idle clients there are.
    var connections: Int { idle ?? Self.usualConnections }

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<CrowdCommand> {
        var list = OptionList(CrowdCommand())
        let known = CrowdLimits.transports.filter(vocabulary.transports.contains)
        list.add(.what, [Setting("transport", .names(known), \.transports, "transports"), .tls(\.usesTLS)])
        list.add(
            .load,
            [
                Setting(
                    "idle",
                    SettingFormat.integer(1...CrowdLimits.mostConnections).orAbsent("\(usualConnections)"),
                    \.idle,
                    "idle clients that a second process holds"
                ),
                Setting(
                    "hold",
                    .upToHour(from: .milliseconds(100)),
                    \.hold,
                    "how long they are held, and pinged where the protocol has a ping"
                ),
                Setting(
                    "transfer",
                    .bytes(0...CrowdLimits.mostTransferred),
                    \.transfer,
                    "bytes that each idle client sends and receives back, after which the memory is read again"
                ),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        list.add(.report, [.assertions(.crowds, vocabulary, \.assertions)])
        return list
    }

    mutating func check(_: TypedLine, _: Vocabulary) throws(UsageError) {
        if usesTLS { transports = withEncrypted(transports, among: CrowdLimits.transports) }
    }

    func run() throws -> Int32 { try gather(self) }
}

/// Idle crowds, one transport after the other.
private func gather(_ options: CrowdCommand) throws -> Int32 {
    let target = try options.report.target()
    var run = RunResults(of: options, seed: 0)
    run.record.usesSeed = false
    if run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.general.isQuiet) }
    let loop = try makeLoop("im-server")
    // The process of the clients inherits the limit.
    let limit = raiseDescriptorLimit()
    let room = max(1, limit - 64)
    guard options.connections <= room || options.idle == nil else {
        throw UsageError(
            "--idle is \"\(options.connections)\"; a process may have \(limit) descriptors (ulimit -Hn), so allowed is 1 to \(room)"
        )
    }
    let connections = min(options.connections, room)
    if connections < options.connections {
        run.remarks.append(
            "\(connections) in place of \(options.connections) connections: a process may have \(limit) descriptors (ulimit -Hn), "
                + "and each connection takes one of the server's and one of the clients'"
        )
    }
    var progress = Progress(total: options.transports.count, isQuiet: options.general.isQuiet)
    defer { progress.finish() }
    var rows: [CrowdRow] = []
    for transport in options.transports where !Interruption.isRequested {
        progress.step(transport)
        var crowd = IdleCrowd(transport: transport, connections: connections, hold: options.hold, loop: loop)
        crowd.transfer = options.transfer
        rows.append(crowd.measure())
    }
    progress.finish()
    run.end()
    let results = CrowdResults(run: run, rows: rows)
    try target.write(results.report, options.report)
    return options.assertions.status(of: rows, hasFailed: rows.contains { $0.failure != nil })
}
