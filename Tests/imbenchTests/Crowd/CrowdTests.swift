import SocketIO
import Testing
import TransportAPI
import Transports

@testable import imbench

private func parse(_ line: String) throws(UsageError) -> Options {
    try OptionParser(vocabulary: everything).parse(line.split(separator: " ").map(String.init))
}

@Suite("imbench crowd", .timeLimit(.minutes(2)))
struct CrowdTests {
    private static let loops = Result { (try EventLoop(name: "crowd-server"), try EventLoop(name: "crowd-client")) }

    private static let attacks: [(String, HostileKind, String)] = [
        ("ws", .pingFlood, "tooManyRequests"), ("ws", .fragmentFlood, "tooManyRequests"),
        ("ws", .giantLength, "messageTooLarge"), ("ws", .compressionBomb, "messageTooLarge"),
        ("tcp", .pingFlood, "tooManyRequests"), ("mqtt", .subscriptionFlood, "tooManyRequests"),
        ("udp", .pingFlood, "tooManyRequests"), ("udp", .garbageFlood, "protocolViolation"),
        ("udp", .unknownSession, "notFound"),
    ]

    @Test("hostile clients are ended for what they do, and honest ones are served", arguments: attacks)
    func attack(transport: String, kind: HostileKind, code: String) async throws {
        guard kind != .compressionBomb || ZLib.shared != nil else { return }
        let (server, client) = try Self.loops.get()
        let run = AttackRun(
            transport: transport,
            kind: kind,
            script: try #require(HostileScript(kind, transport)),
            attackers: 2,
            hold: .milliseconds(500),
            serverLoop: server,
            clientLoop: client
        )
        // The hostile clients give way to whoever else uses this machine, so it may take them a while to do any harm.
        var row = await run.measure()
        while row.failure == nil, !row.endings.contains(where: { $0.code == code }) { row = await run.measure() }
        #expect(row.failure == nil)
        #expect(row.metrics.map(\.name) == CrowdRow.attackMetrics)
    }

    @Test("there is a script wherever the protocol leaves room for one, and only there")
    func scripts() {
        #expect(HostileScript(.fragmentFlood, "tcp") == nil)
        #expect(HostileScript(.subscriptionFlood, "ws") == nil)
        #expect(HostileScript(.giantLength, "udp") == nil)
        #expect(HostileScript(.helloFlood, "udp") != nil && HostileScript(.helloFlood, "tcp") == nil)
        for transport in ["ws", "tcp", "mqtt"] { #expect(HostileScript(.halfOpen, transport)?.opening.isEmpty == true) }
    }

    @Test("every option is read, and can be typed again")
    func options() throws {
        let line = "crowd --hostile --attackers 7 --attack ping-flood,half-open --hold 2s --transport ws,mqtt"
        let options = try parse(line)
        #expect(options.crowd.isHostile)
        #expect(options.crowd.attackers == 7)
        #expect(options.crowd.attacks == [.pingFlood, .halfOpen])
        #expect(options.crowd.hold == .seconds(2))
        #expect(options.transports == ["ws", "mqtt"])
        #expect(try parse("crowd").transports == ["ws"])
        #expect(try parse("crowd").crowd.links == 10_000)
        #expect(try parse("crowd --hostile").transports == ["ws", "tcp", "mqtt", "udp"])
        #expect(throws: UsageError("--attackers needs --hostile")) { try parse("crowd --attackers 5") }
        #expect(throws: UsageError("--transport: 'crowd' knows ws, tcp, mqtt, not udp")) {
            try parse("crowd --transport udp")
        }
    }

    @Test("assertions speak of the rows that they name")
    func assertions() throws {
        var row = CrowdRow(transport: "ws", attack: .pingFlood)
        row.metrics = [("ratio_p99", 1.5), ("quiet_p99_us", nil)]
        func failure(_ text: String) throws -> String? {
            let words = ["crowd", "--hostile", "--assert", text]
            let options = try OptionParser(vocabulary: everything).parse(words)
            return try #require(options.crowd.assertions.first).failure(in: [row])
        }
        #expect(try failure("ws.ping-flood.ratio_p99 <= 2") == nil)
        #expect(try failure("ws.ratio_p99 < 1") == "'ws.ratio_p99 < 1' does not hold: ws.ping-flood has 1.5")
        #expect(try failure("tcp.ratio_p99 < 1") == "'tcp.ratio_p99 < 1' does not hold: there is no such row")
        #expect(try failure("ws.half-open.ratio_p99 < 1")?.hasSuffix("there is no such row") == true)
        #expect(try failure("ws.quiet_p99_us < 1")?.hasSuffix("ws.ping-flood has no quiet_p99_us") == true)
        #expect(throws: UsageError.self) { _ = try failure("ws.speed < 1") }
        #expect(throws: UsageError.self) { _ = try failure("ws < 1") }
    }

    @Test("the report holds every number in each format", arguments: Format.allCases)
    func report(format: Format) {
        var row = CrowdRow(transport: "ws", attack: .pingFlood)
        row.metrics = CrowdRow.attackMetrics.map { ($0, 4711) }
        row.endings = [("tooManyRequests", 99)]
        let run = RunResults(environment: .current(), options: [], seed: 0)
        let text = CrowdReport(run: run, isHostile: true, rows: [row]).text(format, .none)
        #expect(text.contains("ping-flood"))
        #expect(text.contains("4711"))
        #expect(format == .csv || text.contains("99"))
        #expect(format != .json || text.contains("\"schema\": \"imbench/1\""))
    }
}
