/// Whether the app's credentials are fresh, so that they are requested again at most once.
enum Credentials: Sendable, Hashable {
    /// The app has no preparation and no greeting that could get others.
    case fixed
    /// The usual ones.
    case usual
    /// They were refused. The next attempt requests fresh ones, and so does the one after it if that has ended before they
    /// came.
    case refused
    /// Fresh ones were used, and no connection was accepted since.
    case fresh

    /// Whether other credentials than the present ones can be requested.
    var canBeRefreshed: Bool { self == .usual }

    /// A connection was accepted with them.
    mutating func accepted() {
        if self != .fixed { self = .usual }
    }
}
