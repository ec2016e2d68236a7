/// The commands that answer one question of a user. The help lists them together.
package struct CommandGroup: Sendable {
    /// A command, and what it tells or does, in a few words.
    package typealias Entry = (command: any RunnableCommand.Type, answer: String)

    var question: String
    var entries: [Entry]

    package init(_ question: String, _ entries: [Entry]) { (self.question, self.entries) = (question, entries) }
}

/// The words of a program's command line.
package struct Vocabulary: Sendable {
    /// The name of the program.
    package var program: String
    /// What the program does, for its help text.
    package var purpose: String
    /// All commands. The first one is the default.
    package var groups: [CommandGroup]
    /// The names of all transports. They come from a registry, so that a new transport needs no change here.
    package var transports: [String]
    /// The transports that are compared by default.
    package var defaultTransports: [String]
    /// All codecs.
    package var codecs: [String]
    /// The codecs that are compared by default.
    package var defaultCodecs: [String]
    /// The transports without a network, which has no path that could break.
    package var local: [String] = []
    /// The modes of transports that only `run` and `overhead` measure.
    package var modes: [String] = []
    /// The names of transports in reports.
    package var rowNames: [String] = []

    package init(
        program: String,
        purpose: String,
        groups: [CommandGroup],
        transports: [String],
        defaultTransports: [String],
        codecs: [String],
        defaultCodecs: [String]? = nil,
        local: [String] = [],
        modes: [String] = [],
        rowNames: [String] = []
    ) {
        (self.program, self.purpose, self.groups, self.transports) = (program, purpose, groups, transports)
        (self.defaultTransports, self.codecs, self.local, self.modes) = (defaultTransports, codecs, local, modes)
        self.defaultCodecs = defaultCodecs ?? codecs
        self.rowNames = rowNames
    }

    /// The commands of all groups.
    package var commands: [any RunnableCommand.Type] { groups.flatMap { $0.entries.map(\.command) } }

    /// The transports with a path between two processes, which can break.
    package var withPath: [String] { transports.filter { !local.contains($0) && !modes.contains($0) } }

    /// The command with this name; `nil` if there is none.
    package func command(_ name: String) -> (any RunnableCommand.Type)? { commands.first { $0.command.name == name } }

    /// The options of a command, as they are documented.
    package func options(of command: any RunnableCommand.Type) -> [OptionDescription] { command.descriptions(self) }
}
