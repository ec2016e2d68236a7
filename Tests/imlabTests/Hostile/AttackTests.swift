import CommandTestSupport
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Crowds
@testable import Reporting
@testable import imlab

@Suite("imlab hostile", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct AttackTests {
    private static let loops = Result { (try EventLoop(name: "crowd-server"), try EventLoop(name: "crowd-client")) }

    /// Every attack whose clients the server must end, with a few attackers.
    private static let everyPlan: [AttackPlan] = HostileScript.transports.flatMap { transport in
        HostileKind.allCases.compactMap { AttackPlan($0, transport, attackers: 4) }.filter { !$0.expected.isEmpty }
    }

    private func run(_ plan: AttackPlan, _ change: (inout AttackRun) -> Void = { _ in }) async throws -> AttackRow {
        let (server, client) = try Self.loops.get()
        var run = AttackRun(
            plan: plan,
            attackers: 4,
            hold: .milliseconds(100),
            // One round trip in each half of the quiet time, because other tests keep this machine busy.
            enough: 2,
            serverLoop: server,
            clientLoop: client,
            // Other tests need this machine too.
            rest: 2,
            longestOvertime: .seconds(240)
        )
        // This test does not check ratios.
        run.pauses = (.zero, .zero)
        change(&run)
        return try await apart { [run] in run.measure() }
    }

    /// Whether a breach is one of this attack alone. The heap is that of all tests of this process, and the time of a step of
    /// a handshake depends on the build.
    private static func isCounted(_ breach: String) -> Bool {
        !breach.contains("bytes of heap") && !breach.contains("of the processor")
    }

    @Test("Hostile clients are ended with the expected error, and honest ones are served", arguments: everyPlan)
    func attack(plan: AttackPlan) async throws {
        let row = try await run(plan)
        #expect(row.failure == nil)
        #expect(row.breaches.filter(Self.isCounted) == [])
        #expect(AttackRow.middle(of: [row])?.metrics.map(\.name) == AttackRow.metricNames)
        for code in plan.expected { #expect(row.endings.contains { $0.code == code }) }
    }

    /// Attacks on the sessions of a chat room, for which no client is ended.
    private static let roomPlans: [AttackPlan] = ["tcp", "ws"].flatMap { transport in
        HostileKind.allCases.filter(\.isOfSessions).compactMap { AttackPlan($0, transport, attackers: 4) }
            .filter(\.expected.isEmpty)
    }

    @Test("Honest members of a room receive each other's messages beside hostile sessions", arguments: roomPlans)
    func room(plan: AttackPlan) async throws {
        let row = try await run(plan)
        #expect(row.failure == nil)
        #expect(row.breaches.filter(Self.isCounted) == [])
        #expect(try #require(row.value(of: "attacked_round_trips")) > 0)
    }

    @Test("A client abandons the number of sessions in its script, each with another identifier")
    func zombies() throws {
        let script = try #require(HostileScript.all(.zombieSessions, "tcp").first)
        let leaves = try #require(script.leaves)
        #expect((0..<HostileScript.zombies).allSatisfy(leaves) && !leaves(HostileScript.zombies))
        let opening = try #require(script.freshOpening)
        let openings = [(1, 0), (1, 1), (2, 0)].map { opening($0, $1) }
        #expect(Set(openings).count == openings.count)
        for bytes in openings {
            #expect(bytes.prefix(4) == [0, 0, 0, 62])
            guard case .hello = try SessionFrame(Payload(Array(bytes.dropFirst(4)))) else {
                Issue.record("a session does not begin with a hello")
                return
            }
        }
    }

    @Test("An attack is measured until there are enough round trips for a 99th percentile, and as long without it")
    func enough() async throws {
        let row = try await run(try #require(AttackPlan(.pingFlood, "tcp", attackers: 4))) { $0.enough = 1000 }
        #expect(row.failure == nil)
        for trips in ["quiet_round_trips", "attacked_round_trips"] {
            #expect(try #require(row.value(of: trips)) >= 1000)
        }
        for ratio in ["ratio_p50", "ratio_p99"] { #expect(row.value(of: ratio) != nil) }
    }

    @Test("Idle clients share the server with hostile ones, and are not lost")
    func beside() async throws {
        let program = try #require(BuiltProgram.imlab.path)
        let row = try await run(try #require(AttackPlan(.pingFlood, "ws", attackers: 4, connections: 50))) {
            $0.connections = 50
            $0.program = [program, ClientsProcess.word]
        }
        #expect(row.failure == nil)
        #expect(row.breaches.filter(Self.isCounted) == [])
        #expect(row.value(of: "idle") == 50)
    }

    @Test(
        "Handshakes at a fixed rate are compared to as many usual ones, and their longest step is measured",
        .enabled(if: hasOpenSSL)
    )
    func fixedRate() async throws {
        let plan = try #require(AttackPlan(.helloFields, "tls", attackers: 4))
        let row = try await run(plan) { $0.enough = 100 }
        #expect(row.failure == nil)
        #expect(try #require(row.value(of: "longest_step_us")) > 0)
        #expect(try #require(row.value(of: "repeated_step_us")) > 0)
        #expect(try #require(row.value(of: "usual_step_us")) > 0)
        // The control's clients leave the server's answer, and those of the attack are refused.
        for code in ["connectionLost", "secureHandshakeFailed"] { #expect(row.endings.contains { $0.code == code }) }
        let flood = try #require(AttackPlan(.pingFlood, "tcp", attackers: 4))
        #expect(flood.control.isEmpty && plan.control.count == 1)
    }

    @Test("A missing expected ending is a breach")
    func missing() async throws {
        // The server has room for more than two handshakes, so it ends none.
        let plan = try #require(AttackPlan(.halfOpen, "ws", attackers: 100))
        let row = try await run(plan) { $0.longestOvertime = .zero }
        #expect(row.breaches.contains("no client was ended with tooManyRequests; expected were at least 50"))
    }

    @Test("Memory above the limit of the plan is a breach, and each row has the limit")
    func heap() throws {
        let plan = try #require(AttackPlan(.giantLength, "tcp", attackers: 100))
        let bound = plan.heapBound(100)
        #expect(plan.breach(heap: Double(bound), 100) == nil)
        #expect(
            plan.breach(heap: 16_777_216, 100)
                == "16777216 bytes of heap for each hostile client are more than \(bound)"
        )
        // The limit is always below the memory of one message of the largest size for each client.
        for plan in Self.everyPlan { #expect(plan.heapBound(100) < 4 << 20) }
    }

    @Test("A plan exists exactly for the attacks that the protocol makes possible")
    func plans() {
        func exists(_ kind: HostileKind, _ transport: String) -> Bool {
            AttackPlan(kind, transport, attackers: 2) != nil
        }
        #expect(!exists(.fragmentFlood, "tcp") && exists(.fragmentFlood, "ws"))
        #expect(!exists(.subscriptionFlood, "ws") && exists(.subscriptionFlood, "mqtt"))
        #expect(!exists(.giantLength, "udp") && exists(.giantLength, "mqtt+ws"))
        #expect(exists(.helloFlood, "udp") && !exists(.helloFlood, "tcp"))
        #expect(exists(.requestSmuggling, "http") && !exists(.requestSmuggling, "ws"))
        #expect(exists(.endlessBody, "stomp") && exists(.wrongLength, "stomp+ws") && !exists(.endlessBody, "mqtt"))
        #expect(exists(.blankFlood, "xmpp") && exists(.blankFlood, "stomp+ws") && !exists(.entityExpansion, "stomp"))
        for kind in HostileKind.allCases {
            guard !kind.isOfHandshakes else {
                #expect(!exists(kind, "tcp") && exists(kind, "tls") == hasOpenSSL && exists(kind, "wss") == hasOpenSSL)
                continue
            }
            #expect(
                ["ws", "tcp", "mqtt", "mqtt+ws", "stomp", "xmpp", "http", "udp"].contains { exists(kind, $0) }
                    || ZLib.shared == nil
            )
        }
    }

    @Test("The limits can be reached: half of the attackers exceed them, and idle clients do not")
    func room() {
        #expect(AttackPlan(.halfOpen, "ws", attackers: 100)?.options == ["max-handshakes=50"])
        #expect(AttackPlan(.halfOpen, "ws", attackers: 100, connections: 10_000)?.options == ["max-handshakes=50"])
        #expect(AttackPlan(.halfOpen, "mqtt", attackers: 40, connections: 10_000)?.options == ["max-handshakes=32"])
        #expect(AttackPlan(.halfOpen, "ws", attackers: 20, connections: 10_000)?.expected == [])
        #expect(AttackPlan(.halfOpen, "tcp", attackers: 10, connections: 100)?.options == ["max-connections=140"])
    }
}
