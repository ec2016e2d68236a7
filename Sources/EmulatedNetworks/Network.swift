import CommandSupport
import TransportAPI
import Transports

/// A network between client and server, as `--network` describes it.
package struct Network: Sendable, Hashable {
    /// The word or the description of the command line.
    package var name = ""
    /// The time that a packet travels in one direction.
    package var delay = Duration.zero
    /// How much longer or shorter the delay of a packet is at most. Packets keep their order.
    package var jitter = Duration.zero
    /// The share of packets that are lost in each direction.
    package var loss = 0.0
    /// Bits per second to the client and to the server; `nil` without a limit. Headers of IP count.
    package var rateToClient: Double?
    package var rateToServer: Double?
    /// How many packets wait for a limited rate in each direction. Further ones are dropped.
    package var queue = 100
    /// The share of packets that later ones overtake.
    package var reordering = 0.0
    /// The time without packets after which a NAT forgets a mapping; `nil` without a NAT.
    package var nat: Duration?
    /// The source of the figures of a preset.
    package var source = ""

    /// The networks with a name. Docs/reference/networks.md has the addresses of the sources.
    package static let presets = [
        preset(
            "wifi",
            "delay=1ms,rate=30mbit/15mbit",
            "Firefox Source Docs, Network Monitor, Throttling, read in 2026: Wi-Fi, 30 Mbit/s and 15 Mbit/s, 2 ms"
        ),
        preset(
            "4g",
            "delay=35ms,rate=12mbit/12mbit",
            "WebPageTest, connectivity.ini.sample, read in 2026: LTE, 12 Mbit/s, round trip of 70 ms"
        ),
        preset(
            "3g",
            "delay=150ms,rate=1.6mbit/768kbit",
            "WebPageTest, connectivity.ini.sample, read in 2026: 3G, 1.6 Mbit/s and 768 kbit/s, round trip of 300 ms"
        ),
        preset(
            "metro",
            "delay=95ms,loss=1%,rate=900kbit/200kbit",
            "BrowserStack, Simulate network conditions, read in 2026: 3.5g-hspa-lossy, 900 and 200 kbit/s, 190 ms, "
                + "loss of 1 %"
        ),
        preset(
            "satellite",
            "delay=279ms",
            "RFC 2488, 1999, section 2: a hop over a geostationary satellite takes up to 279 ms in each direction"
        ),
    ]

    /// How long these bytes and their echo take at the limited rates, without headers and waiting.
    package func timeToTransfer(_ bytes: Int) -> Duration {
        let rates = [rateToClient, rateToServer].compactMap(\.self)
        return .seconds(rates.reduce(0) { sum, rate in sum + Double(bytes) * 8 / rate })
    }

    private static func preset(_ name: String, _ description: String, _ source: String) -> Network {
        // A test reads all presets.
        var network = (try? Network(description)) ?? Network()
        (network.name, network.source) = (name, source)
        return network
    }

    /// A network without delay, losses and limits.
    package static let free = Network()

    /// A network that has a NAT and is otherwise free.
    package static func translated(forgettingAfter nat: Duration) -> Network {
        var network = Network()
        network.nat = nat
        network.name = network.description
        return network
    }

    private init() {}

    /// Reads the name of a preset, or a description such as `delay=50ms±10ms,loss=2%,rate=1mbit`.
    package init(_ text: String) throws(UsageError) {
        if !text.contains("=") {
            guard let preset = Self.presets.first(where: { $0.name == text }) else {
                throw .unknown(
                    "network",
                    text,
                    of: "--network",
                    allowed: Self.presets.map(\.name) + ["a description such as 'delay=50ms±10ms,loss=2%,rate=1mbit'"]
                )
            }
            self = preset
            return
        }
        var seen: Set<String> = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2 else {
                throw UsageError(
                    "--network: '\(part)' is no KEY=VALUE; the keys are \(Self.keys.joined(separator: ", "))"
                )
            }
            guard Self.keys.contains(pair[0]) else {
                throw .unknown("key", pair[0], of: "--network", allowed: Self.keys)
            }
            guard seen.insert(pair[0]).inserted else { throw UsageError("--network: '\(pair[0])' is there twice") }
            do throws(TransportError) {
                try set(pair[0], pair[1])
            } catch {
                throw UsageError(error.reason)
            }
        }
        guard jitter <= delay else {
            throw UsageError(
                "--network: the jitter of \(jitter.settingText) is more than the delay of \(delay.settingText)"
            )
        }
        guard !seen.contains("queue") || rateToServer != nil else {
            throw UsageError("--network: 'queue' needs 'rate', because packets wait only for a link with a rate")
        }
        name = text
    }

    private static let keys = ["delay", "loss", "rate", "queue", "reorder", "nat"]
    private static let time = SettingFormat.duration(.zero ... .seconds(60))
    private static let share = SettingFormat.number(0...1, percents: 100)

    private mutating func set(_ key: String, _ value: String) throws(TransportError) {
        let place = "--network \(key)"
        switch key {
        case "delay":
            let parts = value.split(separator: "±", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            delay = try Self.time.read(parts[0], key: place)
            if parts.count == 2 { jitter = try Self.time.read(parts[1], key: place) }
        case "loss": loss = try Self.share.read(value, key: place)
        case "rate":
            let parts = value.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            rateToClient = try Self.rate(parts[0], place)
            rateToServer = parts.count == 2 ? try Self.rate(parts[1], place) : rateToClient
        case "queue": queue = try SettingFormat.integer(1...LinkDirection.mostPackets).read(value, key: place)
        case "reorder": reordering = try Self.share.read(value, key: place)
        case "nat": nat = try SettingFormat.duration(.milliseconds(100) ... .seconds(86_400)).read(value, key: place)
        default: break
        }
    }

    /// Reads bits per second: a number with `kbit`, `mbit` or `gbit`.
    private static func rate(_ text: String, _ place: String) throws(TransportError) -> Double {
        for (unit, size) in [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)] where text.hasSuffix(unit) {
            guard let number = Double(text.dropLast(unit.count)), number * size >= 1000, number * size <= 1e11 else {
                continue
            }
            return number * size
        }
        throw TransportError(
            .invalidConfiguration,
            .configure,
            "\(place): '\(text)' is no rate from 1kbit to 100gbit, such as 1.6mbit"
        )
    }

    /// The figures, as they can be typed.
    package var description: String {
        var parts: [String] = []
        if delay > .zero || jitter > .zero {
            parts.append("delay=\(delay.settingText)" + (jitter > .zero ? "±\(jitter.settingText)" : ""))
        }
        if loss > 0 { parts.append("loss=\(fixed(loss * 100, 3, trimmed: true))%") }
        if let rateToClient, let rateToServer {
            let rates = [rateToClient, rateToServer].map(Self.text)
            parts.append("rate=" + (rates[0] == rates[1] ? rates[0] : rates.joined(separator: "/")))
            parts.append("queue=\(queue)")
        }
        if reordering > 0 { parts.append("reorder=\(fixed(reordering * 100, 3, trimmed: true))%") }
        if let nat { parts.append("nat=\(nat.settingText)") }
        return parts.isEmpty ? "delay=0s" : parts.joined(separator: ",")
    }

    private static func text(_ rate: Double) -> String {
        rate >= 1e6 ? "\(fixed(rate / 1e6, 3, trimmed: true))mbit" : "\(fixed(rate / 1e3, 3, trimmed: true))kbit"
    }
}
