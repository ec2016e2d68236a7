import CommandTestSupport
import EmbeddedServers
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite struct ProxyOptionTests {
    private func parse(_ line: String) throws(UsageError) -> ServeCommand {
        try OptionParser(vocabulary: everything).parse(
            line.split(separator: " ").map(String.init),
            as: ServeCommand.self
        )
    }

    @Test("Every option of the proxy is read")
    func everyOption() throws {
        let options = try parse(
            "serve --proxy udp://h:1?plain=on --delay 50ms --jitter 20ms --loss 0.01 --duplicate 0.5 --reorder 1"
                + " --throttle 100000 --seed 7"
        )
        #expect(options.proxy.target?.description == "udp://h:1?plain=on" && options.seed == 7)
        #expect(
            options.proxy.faults
                == PathFaults(
                    delay: .milliseconds(50),
                    jitter: .milliseconds(20),
                    bytesPerSecond: 100_000,
                    loss: 0.01,
                    duplication: 0.5,
                    reordering: 1
                )
        )
        let line = options.record(.measured).map { "--\($0.name)=\($0.value)" }
        #expect(try OptionParser(vocabulary: everything).parse(["serve"] + line, as: ServeCommand.self) == options)
    }

    @Test(
        "A mistake names the option, the value and what is allowed",
        arguments: [
            ("serve --delay 5ms", "--delay needs --proxy"),
            ("serve --loss 0.1 --listen ws://a:1", "--loss needs --proxy"),
            ("serve --proxy ws://a:1 --listen ws://a:1", "--listen and --proxy exclude each other"),
            ("serve --listen ws://a:1 --proxy ws://a:1", "--proxy and --listen exclude each other"),
            (
                "run --loss 0.1",
                "--loss belongs to 'advise' and 'serve', not to 'run'; 'imbench help run' lists its options"
            ),
            ("serve --proxy ws://a:1 --loss 1.5", #"--loss is "1.5"; allowed is 0 to 1, or "0%" to "100%""#),
            ("serve --proxy ws://a:1 --loss -1", #"--loss is "-1"; allowed is 0 to 1, or "0%" to "100%""#),
            (
                "serve --proxy ws://a:1 --throttle 0",
                #"--throttle is "0"; allowed is 1 to 1000000000000, or with a unit ("64KiB")"#
            ),
            ("serve --proxy ws://a:1 --delay 2h", #"--delay is "2h"; allowed is "0s" to "1h""#),
            (
                "serve --proxy ws://a:1 --jitter 5",
                #"--jitter is "5"; its unit is missing ("5s" are seconds); allowed is "0s" to "1h""#
            ),
            (
                "serve --proxy memory://a:1",
                #"--proxy "memory://a:1": scheme is "memory"; allowed is "tcp", "ws", "mqtt", "udp""#
            ),
        ]
    )
    func mistakes(_ line: String, _ sentence: String) {
        #expect(throws: UsageError(sentence)) { try parse(line) }
    }

    @Test("The report counts lost datagrams only for UDP")
    func report() {
        var statistics = FaultStatistics()
        statistics.connections = 3
        statistics.lost = 12
        let lines = proxyReport(statistics, isDatagram: true).split(separator: "\n")
        #expect(
            lines.first == "clients                         3" && lines.contains("lost                           12")
        )
        #expect(!proxyReport(statistics, isDatagram: false).contains("lost"))
    }
}
