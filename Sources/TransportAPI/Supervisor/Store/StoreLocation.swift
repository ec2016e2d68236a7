/// Names a store of the outbox in a configuration.
public struct StoreLocation: Sendable, Hashable {
    /// What keeps the records.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// A file of this package.
        case file
        /// A database of SQLite.
        case sqlite
    }

    /// What keeps the records.
    public var kind: Kind
    /// The path of the file or database, whose folder must exist. A relative one begins at the current folder of the
    /// process.
    public var path: String
    /// When the store makes the system write to the disk. Default ``StoreSync/default``.
    public var sync: StoreSync

    /// Creates the name of a store.
    public init(_ kind: Kind, path: String, sync: StoreSync = .default) {
        (self.kind, self.path, self.sync) = (kind, path, sync)
    }
}
