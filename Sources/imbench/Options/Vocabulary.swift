import Codecs
import Transports

/// The words of the command line. The names of transports come from their registry, so that a new transport needs no change
/// here.
struct Vocabulary: Sendable {
    /// The offered commands. The first one is the default.
    var commands: [Command]
    /// All transports.
    var transports: [String]
    /// The transports that are compared by default.
    var defaultTransports: [String]
    /// All codecs.
    var codecs: [String]
    /// The transports without a network, which has no path that could break.
    var local: [String] = []
    /// The modes of transports that only `run` and `overhead` measure.
    var modes: [String] = []

    /// The transports with a path between two processes, which can break.
    var withPath: [String] { transports.filter { !local.contains($0) && !modes.contains($0) } }

    /// The words of the program.
    static let measured = {
        let transports = TransportRegistry.measured.transports
        return Vocabulary(
            commands: Command.allCases,
            transports: transports.map(\.name),
            // Transports without a port, modes, and one transport over another are measured only on request.
            defaultTransports: TransportRegistry.available.transports
                .filter { $0.defaultPort != nil && !$0.isComposed && !$0.isEncrypted }
                .map(\.name),
            codecs: WireFormat.allCases.map(\.name),
            local: transports.filter { $0.defaultPort == nil }.map(\.name),
            modes: TransportMode.namesOfMeasuredOnly
        )
    }()

    /// The names of transports in reports.
    var rowNames: [String] { transports + transports.compactMap(TransportRegistry.nameWithSessions) }
}
