import CommandTestSupport
import Testing

@testable import CommandSupport
@testable import EmulatedNetworks
@testable import Reporting
@testable import imbench

/// The description of a network on the command line.
@Suite("Networks of the command line")
struct NetworkTests {
    @Test("A description is read, and its text describes the same network")
    func description() throws {
        let network = try Network("delay=50ms±10ms,loss=2%,rate=1.5mbit/500kbit,queue=50,reorder=1%,nat=30s")
        #expect(network.delay == .milliseconds(50) && network.jitter == .milliseconds(10))
        #expect(network.loss == 0.02 && network.reordering == 0.01)
        #expect(network.rateToClient == 1_500_000 && network.rateToServer == 500_000 && network.queue == 50)
        #expect(network.nat == .seconds(30))
        var again = try Network(network.description)
        again.name = network.name
        #expect(again == network)
    }

    @Test("A rate alone applies to both directions")
    func oneRate() throws {
        let network = try Network("rate=1mbit")
        #expect(network.rateToClient == 1_000_000 && network.rateToServer == 1_000_000 && network.queue == 100)
    }

    @Test("Each preset has a delay, and a source with its year", arguments: Network.presets)
    func presets(preset: Network) throws {
        #expect(preset.delay > .zero)
        #expect(preset.source.contains(#/(19|20)\d\d/#), "\(preset.source)")
        #expect(try Network(preset.name) == preset)
    }

    @Test(
        "A mistake names the key, the value and what is allowed",
        arguments: [
            ("5g", ["'5g'", "4g", "wifi"]), ("delay=50", ["delay", "50", "1m"]), ("delay", ["'delay'", "satellite"]),
            ("loss=2", ["loss", "2", "%"]), ("delay=1ms,,", ["KEY=VALUE", "nat"]), ("dealy=1ms", ["dealy", "delay"]),
            ("delay=1ms,delay=2ms", ["delay", "twice"]), ("rate=1", ["rate", "'1'", "1kbit"]),
            ("rate=nanmbit", ["rate", "nanmbit"]), ("rate=1mbit/", ["rate", "''"]),
            ("rate=999gbit", ["999gbit", "100gbit"]),
            ("delay=1ms±2ms", ["jitter", "2ms", "1ms"]), ("queue=0", ["queue", "0", "1"]),
            ("delay=1ms,queue=5", ["queue", "rate"]),
            ("nat=1ms", ["nat", "1ms", "100ms"]),
        ]
    )
    func mistakes(text: String, parts: [String]) {
        let error = #expect(throws: UsageError.self) { try Network(text) }
        for part in parts { #expect(error?.message.contains(part) == true, "\(error?.message ?? "")") }
    }

    @Test("--network belongs to commands that open connections, and excludes --url")
    func options() {
        let parser = OptionParser(vocabulary: everything)
        #expect(throws: UsageError.self) { try parser.parse(["run", "--network", "4g", "--url", "ws://127.0.0.1:1"]) }
        #expect(throws: UsageError.self) { try parser.parse(["run", "--network", "delay=1ms,nat=30s"]) }
        #expect(throws: UsageError.self) { try parser.parse(["run", "--network", "4g", "--network", "4g"]) }
        #expect(throws: UsageError.self) { try parser.parse(["storm", "--network", "4g"]) }
        #expect(throws: UsageError.self) { try parser.parse(["run", "--network", "4g", "--config", "app.json"]) }
        #expect(throws: Never.self) {
            let options = try parser.parse(["open", "--network", "4g", "--network", "delay=5ms"], as: OpenCommand.self)
            #expect(options.networks.map(\.name) == ["4g", "delay=5ms"])
        }
    }

    @Test("A transport without a network path is refused over a network", arguments: ["run", "open", "fanout"])
    func local(command: String) {
        var vocabulary = everything
        vocabulary.local = ["memory"]
        let parser = OptionParser(vocabulary: vocabulary)
        let error = #expect(throws: UsageError.self) {
            try parser.parse([command, "--network", "4g", "--transport", "memory,ws"])
        }
        #expect(error?.message.contains("memory") == true && error?.message.contains("ws") == true)
    }

    @Test("By default, a slow network has one connection, so that no queue hides its delay")
    func connections() throws {
        let parser = OptionParser(vocabulary: everything)
        #expect(try parser.parse(["run", "--network", "4g"], as: RunCommand.self).load.connections == 4)
        let slow = try parser.parse(["run", "--network", "4g", "--network", "metro"], as: RunCommand.self)
        let given = try parser.parse(["run", "--network", "metro", "--connections", "3"], as: RunCommand.self)
        #expect(slow.load.connections == 1 && given.load.connections == 3)
    }

    @Test("'open' makes ten connections for each row by default")
    func openings() throws {
        let parser = OptionParser(vocabulary: everything)
        #expect(try parser.parse(["open"], as: OpenCommand.self).repeats == 10)
        #expect(try parser.parse(["open", "--repeat", "7"], as: OpenCommand.self).repeats == 7)
    }
}
