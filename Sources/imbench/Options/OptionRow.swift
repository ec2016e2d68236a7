/// One option: the row from which it is parsed, explained, suggested and recorded in reports.
struct OptionRow: Sendable {
    /// Under which heading the help text shows it.
    enum Group: String, Sendable, CaseIterable {
        case what = "What is compared"
        case load = "How it is loaded"
        case path = "What is wrong with the path"
        case report = "What comes out"
        case general = "General"
    }

    /// Reads the value into the options.
    typealias Apply = @Sendable (inout Options, String, Vocabulary) throws(UsageError) -> Void

    /// The name without its dashes.
    var name: String
    /// What stands for the value in the help text; `nil` for a switch.
    var placeholder: String?
    var group: Group
    /// The commands to which it belongs.
    var commands: [Command]
    /// What the help text says; the words allowed and the default are added to it.
    var summary: String
    /// The words allowed, where there are only a few.
    var allowed: @Sendable (Vocabulary) -> [String] = { _ in [] }
    /// An option that must not be given together with this one.
    var excludes: String?
    /// An option without which this one means nothing.
    var requires: String?
    /// The value that the options hold, as it could be typed; `nil` if there is none. Gives the default and the record.
    var shown: @Sendable (Options) -> String? = { _ in nil }
    var apply: Apply
}
