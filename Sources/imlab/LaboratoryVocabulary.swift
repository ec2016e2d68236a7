import Codecs
import Reporting
import Transports

extension Vocabulary {
    /// The words of imlab.
    static let laboratory = {
        let transports = TransportRegistry.available.transports.map(\.name)
        return Vocabulary(
            program: "imlab",
            purpose: "what the developers of this package prove it with",
            groups: [
                CommandGroup(
                    "Does it keep its promises?",
                    [(SimulateCommand.self, "supervisor and stack, in worlds full of faults")]
                ),
                CommandGroup(
                    "What can a hostile client do?",
                    [(HostileCommand.self, "what each attack costs a server and its other clients")]
                ),
                CommandGroup(
                    "Where does the time go?",
                    [(WorkCommand.self, "one step of a message's path, repeated for a profiler")]
                ),
            ],
            transports: transports,
            defaultTransports: transports,
            codecs: WireFormat.allCases.map(\.name),
            rowNames: transports
        )
    }()
}
