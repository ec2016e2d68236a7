import CommandSupport

/// One network of a run, with what became of its packets.
package struct NetworkUse: Sendable {
    package var network: Network
    package var seed: UInt64
    package var congestionControl: String
    package var counts: LinkCounts
    /// Whether a connection over it uses TCP, so that its congestion control matters.
    package var carriesTCP = true

    package init(network: Network, seed: UInt64, congestionControl: String, counts: LinkCounts) {
        (self.network, self.seed, self.congestionControl, self.counts) = (network, seed, congestionControl, counts)
    }

    /// One line for the report.
    package var sentence: String {
        let losses = network.loss > 0 || counts.toServer.lost + counts.toClient.lost > 0
        return "\(network.description)" + (network.source.isEmpty ? "" : " (\(network.source))")
            + (carriesTCP ? "; TCP uses \(congestionControl); " : "; ")
            + [("to the server", counts.toServer), ("to the client", counts.toClient)].map { name, direction in
                var parts: [String] = []
                if losses { parts.append("\(direction.lost) lost") }
                if direction.overflowed > 0 { parts.append("\(direction.overflowed) dropped by the full queue") }
                if direction.reordered > 0 { parts.append("\(direction.reordered) delayed for reordering") }
                if direction.untranslated > 0 { parts.append("\(direction.untranslated) without a mapping of the NAT") }
                return "\(name) \(counted(direction.packets, "packet"))"
                    + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))")
            }.joined(separator: ", ")
            + (counts.lostByMachine > 0
                ? "; this machine was too busy and dropped \(counts.lostByMachine) more" : "")
    }
}

extension NetworkUse {
    /// The use of a network until now.
    package init(_ network: Network, _ seed: UInt64, _ lab: NetworkLab) {
        self.init(
            network: network,
            seed: seed,
            congestionControl: lab.congestionControlInForce,
            counts: lab.counts
        )
    }
}
