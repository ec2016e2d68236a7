import CommandSupport
import EmulatedNetworks
import Reporting
import Transports

extension SettingFormat where Value == Network {
    static var network: Self {
        SettingFormat<String>.text(1...200).called("NETWORK").read(
            by: { (text) throws(UsageError) in try Network(text) },
            back: { $0.name }
        )
    }
}

extension Setting {
    /// Returns the option of the networks between client and server.
    static func network(_ property: WritableKeyPath<Target, [Network]> & Sendable) -> Setting {
        Setting(
            "network",
            each: SettingFormat<Network>.network.withDefault("loopback"),
            atMost: 16,
            property,
            "the network between client and server, on Linux: \(Network.presets.map(\.name).joined(separator: ", ")), or a "
                + "description such as 'delay=50ms±10ms,loss=2%,rate=1mbit/500kbit,queue=100,reorder=1%' (with 'open' and "
                + "'outage' also nat=30s); may be repeated to compare networks"
        )
    }
}

extension [Network] {
    /// Checks the networks of `--network`, and that each of the transports has a path through them.
    ///
    /// - Parameters:
    ///   - limit: How many networks the command compares.
    ///   - command: The command, for errors.
    ///   - allowsNAT: Whether a network may have a NAT. It may not if the connections of other rows are idle meanwhile,
    ///     because they would be forgotten.
    func check(
        _ transports: [String],
        _ vocabulary: Vocabulary,
        limit: Int = .max,
        of command: Command,
        allowsNAT: Bool
    ) throws(UsageError) {
        guard count <= limit else {
            throw UsageError("--network may be given once for '\(command.name)'")
        }
        for (index, network) in enumerated() where self[..<index].contains(where: { $0.name == network.name }) {
            throw UsageError("--network: '\(network.name)' is there twice")
        }
        if !allowsNAT, contains(where: { $0.nat != nil }) {
            throw UsageError("--network: 'nat' is for 'open' and 'outage', not for '\(command.name)'")
        }
        guard !isEmpty, let local = transports.first(where: vocabulary.local.contains) else { return }
        let others = vocabulary.transports.filter { !vocabulary.local.contains($0) }
        throw UsageError(
            "--transport \(local) stays in this process, so --network does not change it; "
                + "allowed is \(others.joined(separator: ", "))"
        )
    }
}
