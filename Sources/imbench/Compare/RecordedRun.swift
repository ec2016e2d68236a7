/// What a report of `imbench run` says, as far as another run can be compared with it.
struct RecordedRun: Sendable {
    /// What sentences call it: its file.
    var label: String
    /// Of the environment and the options, the texts by their names in the report.
    var environment: [String: String] = [:]
    var options: [String: String] = [:]
    var wasCutShort = false
    var rows: [RecordedRow] = []
    /// The floors as rows without a codec.
    var floors: [RecordedRow] = []
}

/// One row of a report.
struct RecordedRow: Sendable {
    /// What makes two rows the same measurement.
    struct Name: Sendable, Hashable {
        /// A transport, or a floor, which then has no codec.
        var transport: String
        var codec = ""
        /// Bytes of text.
        var size: Int
        var loop = ResultRow.Loop.closed
        /// Connections, and how busy each is.
        var load = ""
    }

    var name: Name
    /// Why it has no numbers.
    var reason: String?
    /// Empty in reports that were written before there were any.
    var repeats: RepeatedValues = [:]
}
