import CommandTestSupport
import EmbeddedServers
import TestSupport
import Testing

@testable import CommandSupport
@testable import Crowds
@testable import Reporting
@testable import imbench

@Suite("imbench crowd: the two processes", .timeLimit(.minutes(5)), .ownThread)
struct CrowdProcessTests {
    @Test(
        "A crowd in its own process connects, is held, and answers every ping that its protocol has",
        arguments: CrowdLimits.transports
    )
    func idle(transport: String) async throws {
        let program = try #require(BuiltProgram.imbench.path)
        let row = try await apart {
            let loop = try makeLoop("crowd-server")
            var crowd = IdleCrowd(transport: transport, connections: 200, hold: .milliseconds(50), loop: loop)
            crowd.program = [program, ClientsProcess.word]
            return crowd.measure()
        }
        #expect(row.failure == nil)
        #expect(row.value(of: "connections") == 200)
        let pings: Double? = transport.hasPrefix("stomp") ? nil : 200
        #expect(row.value(of: "pings") == pings)
        #expect(row.value(of: "pongs") == pings)
        #expect(row.metrics.map(\.name) == CrowdRow.metricNames)
        #if os(Linux)
        #expect(row.value(of: "kernel_slab_bytes") != nil)
        // Other tests may free more buffers than the crowd takes.
        let buffers = row.value(of: "kernel_buffer_bytes")
        #expect(buffers.map { $0 >= 0 } != false)
        #expect((row.value(of: "server_kernel_bytes") == nil) == (buffers == nil))
        #endif
    }

    @Test("Each client receives what it sends, and the memory is read again", arguments: CrowdLimits.transports)
    func transfer(transport: String) async throws {
        let program = try #require(BuiltProgram.imbench.path)
        let row = try await apart {
            let loop = try makeLoop("crowd-server")
            var crowd = IdleCrowd(transport: transport, connections: 20, hold: .zero, loop: loop)
            crowd.program = [program, ClientsProcess.word]
            crowd.transfer = 150_000
            // Under a sanitizer, base64 takes seconds.
            crowd.answerTimeout = .seconds(240)
            return crowd.measure()
        }
        #expect(row.failure == nil)
        #expect(row.value(of: "server_used_bytes") != nil && row.value(of: "client_used_bytes") != nil)
    }

    private static let mistakes = [
        ("exit 3", "the clients' process ended with status 3"),
        ("kill -9 $$", "the clients' process was ended by signal 9"),
        ("echo hello; cat", "invalid line from the other process: 'hello'"),
        ("echo pinged 1 1 - -; cat", "the clients' process sent the unexpected answer 'pinged 1 1 - -'"),
        ("echo connected 2 1 -; cat", "the clients' process sent the unexpected answer 'connected 2 1 -'"),
        ("echo connected 0 1 -; cat", "the clients' process sent the unexpected answer 'connected 0 1 -'"),
        ("echo failed no sockets left; cat", "the clients failed: no sockets left"),
        ("echo connected 1 1 -; exit 4", "the clients' process ended with status 4"),
        ("head -c 20000 /dev/zero; echo; cat", "the clients' process sent a line over the limit"),
        ("exec cat /dev/zero", "the clients' process did not answer 'connect' in time"),
        ("cat >/dev/null", "the clients' process did not answer 'connect' in time"),
    ]

    @Test("A row fails if its clients end, send unexpected lines, or send nothing", arguments: mistakes)
    func mistake(script: String, failure: String) async throws {
        let row = try await apart {
            var crowd = IdleCrowd(transport: "tcp", connections: 1, hold: .zero, loop: try makeLoop("crowd-server"))
            crowd.program = ["/bin/sh", "-c", "read line; " + script]
            if failure.hasSuffix("in time") { crowd.answerTimeout = .milliseconds(1) }
            return crowd.measure()
        }
        #expect(row.failure == failure)
    }

    @Test("A row fails if the program of its clients does not exist")
    func missing() async throws {
        let row = try await apart {
            var crowd = IdleCrowd(transport: "tcp", connections: 1, hold: .zero, loop: try makeLoop("crowd-server"))
            crowd.program = ["/nowhere/imbench"]
            return crowd.measure()
        }
        #expect(row.failure == "cannot start /nowhere/imbench: No such file or directory")
    }

    @Test("The clients' process ends with its input, also while a request is in progress")
    func orphan() async throws {
        let program = try #require(BuiltProgram.imbench.path)
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/")
        let port = try #require(server.endpoint.port)
        let (answer, ending) = try await apart {
            let child = try ChildProcess([program, ClientsProcess.word])
            _ = child.write(
                CrowdRequest.connect(transport: "ws", connections: 3, ports: [port], use: .idle).line
            )
            let answer = child.next(timeout: 60_000)
            _ = child.write(CrowdRequest.ping(nanoseconds: 3_600_000_000_000).line)
            return (answer, child.end())
        }
        await server.stop()
        guard case .line(let line) = answer, case .connected(3, _, _) = try CrowdAnswer(line) else {
            Issue.record("\(answer)")
            return
        }
        #expect(ending == .status(0))
    }

    @Test(
        "The clients' process ends after an invalid request",
        arguments: ["dance", "connect ws 1 idle", "connect ws 1 idle 0"]
    )
    func refusal(line: String) async throws {
        let program = try #require(BuiltProgram.imbench.path)
        let (answer, ending) = try await apart {
            let child = try ChildProcess([program, ClientsProcess.word])
            _ = child.write(line)
            return (child.next(timeout: 60_000), child.end())
        }
        #expect(answer == .line("failed invalid line from the other process: '\(line)'"))
        #expect(ending == .status(1))
    }
}

@Suite("imbench crowd: the lines between the processes") struct CrowdLinesTests {
    @Test("Every request is read back")
    func requests() throws {
        let ports = [UInt16](repeating: 65535, count: 50)
        for request in [
            CrowdRequest.connect(transport: "ws", connections: 20_000, ports: [1], use: .transfer),
            .connect(transport: "mqtt", connections: 20_001, ports: [1, 2], use: .idle),
            .connect(transport: "tcp", connections: 1_000_000, ports: ports, use: .idle),
            .ping(nanoseconds: 0), .transfer(bytes: 1), .transfer(bytes: CrowdLimits.mostTransferred), .close,
        ] {
            #expect(try CrowdRequest(request.line) == request)
        }
    }

    @Test("Every answer is read back")
    func answers() throws {
        for answer in [
            CrowdAnswer.connected(connections: 10_000, nanoseconds: 2_000_000_000, heap: 40_000_000),
            .connected(connections: 0, nanoseconds: 0, heap: nil),
            .connected(connections: 1, nanoseconds: 1, heap: -16),
            .pinged(pings: 10, pongs: 9, p50: 1000, p99: nil), .pinged(pings: 0, pongs: 0, p50: nil, p99: nil),
            .held, .transferred(heap: 1), .transferred(heap: nil), .closed, .failed("the server hung up"),
        ] {
            #expect(try CrowdAnswer(answer.line) == answer)
        }
        #expect(CrowdAnswer.failed("one\ntwo\u{1b}[m").line == "failed one two [m")
    }

    private static let badRequests = [
        "", " ", "close ", "stop", "ping", "ping -1", "ping 3600000000001", "ping 99999999999999999999", "connect",
        "connect udp 1 idle 1", "connect ws 0 idle 1", "connect ws 1000001 idle 1", "connect ws 1 idle 65536",
        "connect ws 1 idle 1 2",
        "connect ws 20001 idle 1", "connect ws 1 idle  1", "connect ws 1 busy 1", "connect ws 1 idle x",
        "transfer", "transfer 0", "transfer -1", "transfer 1073741825",
    ]

    @Test("An invalid request is rejected", arguments: badRequests)
    func invalidRequest(line: String) {
        #expect(throws: SystemFailure.self) { _ = try CrowdRequest(line) }
    }

    private static let badAnswers = [
        "", "failed", "closed 1", "connected", "connected 1 1", "connected -1 1 1", "connected 1000001 1 1",
        "connected 1 -1 1", "connected 1 1 x", "connected 1 1 9223372036854775807", "pinged 1 2 - -", "pinged 1 1 -1 -",
        "pinged 1 1 - - -", "pinged 1 1", "PINGED 1 1 - -", "transferred", "transferred x", "transferred 1 1",
    ]

    @Test("An invalid answer is rejected", arguments: badAnswers)
    func refusedAnswers(line: String) {
        #expect(throws: SystemFailure.self) { _ = try CrowdAnswer(line) }
    }
}
