/// What imbench can be asked to do. Which of these a build offers is said by its ``Vocabulary``.
enum Command: String, Sendable, Hashable, CaseIterable {
    case run, compare, overhead, serve, trace
    case storm, outage, crowd, chat, simulate, work

    /// One line for the help text.
    var summary: String {
        switch self {
        case .run: "compare every transport, codec and size; what happens when no command is given"
        case .compare: "two reports of 'run --format json': which differences are real, which are within noise"
        case .overhead: "bytes per message, per handshake and per day of keepalive, layer by layer"
        case .serve: "run the embedded servers until interrupted"
        case .trace: "show the bytes of one chat message on every wire, one line a field"
        case .storm: "simulate how clients come back after a restart, by reconnect policy, in virtual time"
        case .outage: "break the path in a dozen ways: time to notice, time to recover, what became of the messages"
        case .crowd: "hold thousands of idle clients, or let hostile ones loose: memory, time, and what others feel"
        case .chat: "talk to others through a chat server ('imbench serve --chat') or an MQTT broker"
        case .simulate: "run the supervisor through simulated worlds full of faults, and check that it keeps its rules"
        case .work: "do one step of a message's path many times, for a profiler; without a name, what there is"
        }
    }

    /// The words that follow the command, as they are typed, if it takes any.
    var argument: String? {
        switch self {
        case .trace: #""TEXT""#
        case .chat: "URL"
        case .work: "[NAME]"
        case .compare: "A.json B.json"
        case .run, .overhead, .serve, .storm, .outage, .crowd, .simulate: nil
        }
    }
}

/// How results are written.
enum Format: String, Sendable, Hashable, CaseIterable {
    case table, json, csv, markdown, html
}

/// The words that this build understands. The names of transports come from their registry, so that a new transport is
/// known here without a change.
struct Vocabulary: Sendable {
    /// The commands that are offered; the first one is the default.
    var commands: [Command]
    /// All transports that can be asked for.
    var transports: [String]
    /// Those that are compared when none is asked for.
    var defaultTransports: [String]
    /// All codecs.
    var codecs: [String]
}
