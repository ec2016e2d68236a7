import CommandSupport

/// A command with its options. Each one declares the options that it reads, and no others.
package protocol RunnableCommand: Sendable, Equatable {
    static var command: Command { get }

    var general: GeneralOptions { get set }

    /// The options of the command beside ``general``, with their defaults.
    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<Self>

    /// Checks the options together, and sets defaults that depend on others.
    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError)

    /// Prepares the process while it has one thread only. By default there is nothing to prepare.
    mutating func prepare() throws

    /// Runs the command, and returns the exit status. Throws a ``UsageError``, or a ``SystemFailure`` if the command failed.
    func run() throws -> Int32
}

extension RunnableCommand {
    package func check(_: TypedLine, _: Vocabulary) throws(UsageError) {}
    package func prepare() throws {}

    /// All options of the command.
    package static func options(_ vocabulary: Vocabulary) -> OptionList<Self> {
        var options = ownOptions(vocabulary)
        options.add(GeneralOptions.list, at: \.general)
        return options
    }

    /// The options, as they are documented.
    static func descriptions(_ vocabulary: Vocabulary) -> [OptionDescription] { options(vocabulary).descriptions }

    /// The options as the user could type them again, for the report.
    package func record(_ vocabulary: Vocabulary) -> [(name: String, value: String)] {
        Self.options(vocabulary).record(of: self)
    }

    /// The names of the options that the command line has and that change what is measured. Defaults that follow from other
    /// options do not count.
    func changes(_ vocabulary: Vocabulary) -> [String] {
        Self.options(vocabulary).changes(among: general.given.names)
    }
}

/// What the command line and its help say about a command.
package struct Command: Sendable {
    /// A command line for the help text, with its effect.
    package struct Example: Sendable {
        var line: String
        var effect: String

        package init(_ line: String, _ effect: String) { (self.line, self.effect) = (line, effect) }
    }

    package var name: String
    /// One line for the help text.
    package var summary: String
    /// The words that follow the command, as they are typed, if it takes any.
    package var argument: String?
    /// Whether the command checks ``Interruption`` and then ends early with its report. Ctrl-C ends any other command at
    /// once.
    package var isInterruptible: Bool
    package var examples: [Example]

    package init(
        name: String,
        summary: String,
        argument: String? = nil,
        isInterruptible: Bool = true,
        examples: [Example]
    ) {
        (self.name, self.summary, self.argument) = (name, summary, argument)
        (self.isInterruptible, self.examples) = (isInterruptible, examples)
    }
}
