import CommandSupport

/// What became of a row of a report.
package struct RowOutcome: Sendable {
    var name: String
    /// Why the row has failed; `nil` if it was measured, or skipped for a reason.
    var failure: String?

    /// The failure of a row that was measured.
    package static let openAccounts = "its accounts do not close"

    package init(_ name: String, failure: String?) { (self.name, self.failure) = (name, failure) }
}

extension [RowOutcome] {
    /// The most names, and the most reasons, in one sentence.
    private static var most: Int { 3 }

    /// How many rows failed, which, and why; `nil` if none did.
    var failedRows: String? {
        let failed = filter { $0.failure != nil }
        guard !failed.isEmpty else { return nil }
        let reasons = failed.compactMap(\.failure).distinct
        let parts = reasons.prefix(Self.most).map { reason in
            let names = failed.filter { $0.failure == reason }.map(\.name)
            let others = names.count > Self.most ? " and \(names.count - Self.most) more" : ""
            return names.prefix(Self.most).joined(separator: ", ") + others + " (\(reason))"
        }
        let others =
            reasons.count > Self.most ? "; others for \(counted(reasons.count - Self.most, "more reason"))" : ""
        return "\(failed.count) of \(counted(count, "row")) failed: \(parts.joined(separator: "; "))\(others)."
    }
}
