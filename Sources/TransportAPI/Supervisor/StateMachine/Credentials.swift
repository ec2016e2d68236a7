/// Whether the app's credentials are fresh, so that they are requested again at most once.
enum Credentials: Sendable, Hashable {
    /// The usual ones.
    case usual
    /// They were refused. The next attempt requests fresh ones, and so does the one after it if that has ended before they
    /// came.
    case refused
    /// Fresh ones were used, and no connection was accepted since.
    case fresh

    var isRefreshed: Bool { self != .usual }
}
