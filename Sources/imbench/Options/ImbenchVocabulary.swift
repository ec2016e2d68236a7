import Codecs
import Reporting
import Transports
import Workloads

extension Vocabulary {
    /// The words of imbench.
    static let measured = {
        let transports = TransportRegistry.measured.transports
        return Vocabulary(
            program: "imbench",
            purpose: "the cost of a chat message on each transport, on this machine",
            groups: [
                CommandGroup(
                    "What does a message cost?",
                    [
                        (RunCommand.self, "time, bytes and CPU over each transport"),
                        (OverheadCommand.self, "bytes of a message, a handshake, a day of keepalive"),
                        (TraceCommand.self, "one chat message on every wire, byte by byte"),
                        (CompareCommand.self, "two runs: which differences are real"),
                    ]
                ),
                CommandGroup(
                    "What does a connection cost?",
                    [
                        (OpenCommand.self, "round trips, bytes and time until the first message"),
                        (HeartbeatCommand.self, "bytes and radio time of pings, and the NATs they outlast"),
                    ]
                ),
                CommandGroup(
                    "How much does a server carry?",
                    [
                        (FanoutCommand.self, "one message to many subscribers"),
                        (CrowdCommand.self, "memory and round trips with thousands of idle clients"),
                    ]
                ),
                CommandGroup(
                    "What happens when the network fails?",
                    [
                        (OutageCommand.self, "time to detect and to recover, and lost messages"),
                        (StormCommand.self, "how clients reconnect after a restart, simulated"),
                    ]
                ),
                CommandGroup(
                    "Which transport fits my app?",
                    [(AdviseCommand.self, "a ranking by your answers, and a configuration file")]
                ),
                CommandGroup(
                    "How do I try it?",
                    [
                        (ServeCommand.self, "servers to connect to, until Ctrl-C"),
                        (ChatCommand.self, "a chat in the terminal, over any transport"),
                    ]
                ),
            ],
            transports: transports.map(\.name),
            // Transports without a port, modes, one transport over another, STOMP and XMPP are measured only on request.
            defaultTransports: TransportRegistry.available.transports
                .filter { $0.defaultPort != nil && !$0.isComposed && !$0.isOnRequest && !$0.isEncrypted }
                .map(\.name),
            codecs: WireFormat.allCases.map(\.name),
            defaultCodecs: [WireFormat.json, .protobuf].map(\.name),
            local: transports.filter { $0.defaultPort == nil }.map(\.name),
            modes: TransportMode.namesOfMeasuredOnly,
            rowNames: transports.map(\.name) + transports.map(\.name).compactMap(TransportRegistry.nameWithSessions)
        )
    }()
}
