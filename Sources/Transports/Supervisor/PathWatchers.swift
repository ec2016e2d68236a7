import Protocols
import SocketIO
import TransportAPI

/// The watchers of a network path, and the path that they are notified of.
///
/// No lock is held while a watcher is called, so a watcher can call any function. Each watcher is called for one path
/// after the other. A path that is set during a call waits, and a later path replaces it. So watchers receive the last
/// path, but not every path.
final class PathWatchers: Sendable {
    typealias Watcher = @Sendable (NetworkPath) -> Void

    private struct Entry {
        let watcher: Watcher
        var told: NetworkPath?
    }

    private struct State {
        var path: NetworkPath
        var entries: [UInt64: Entry] = [:]
        var lastIdentifier: UInt64 = 0
        var isTelling = false

        /// Returns the next watcher that was not notified of the current path.
        mutating func next() -> (Watcher, NetworkPath)? {
            guard let (key, entry) = entries.first(where: { $0.value.told != path }) else {
                isTelling = false
                return nil
            }
            entries[key]?.told = path
            return (entry.watcher, path)
        }
    }

    private let state: Locked<State>

    init(_ path: NetworkPath) {
        state = Locked(State(path: path))
    }

    /// Notifies all watchers of `path`, unless they were notified of it already.
    func set(_ path: NetworkPath) {
        state.withLock { $0.path = path }
        tell()
    }

    /// Notifies `watcher` of the current path and of each later one, until the result is released. The result keeps
    /// `owner` alive.
    func watch(keeping owner: (any Sendable)?, _ watcher: @escaping Watcher) -> any Sendable {
        let identifier = state.withLock { state in
            state.lastIdentifier += 1
            state.entries[state.lastIdentifier] = Entry(watcher: watcher)
            return state.lastIdentifier
        }
        let watch = Watch(watchers: self, identifier: identifier, owner: owner)
        tell()
        return watch
    }

    private func tell() {
        let isMine = state.withLock { state in
            defer { state.isTelling = true }
            return !state.isTelling
        }
        guard isMine else { return }
        while let (watcher, path) = state.withLock({ $0.next() }) { watcher(path) }
    }

    private final class Watch: Sendable {
        let watchers: PathWatchers
        let identifier: UInt64
        let owner: (any Sendable)?

        init(watchers: PathWatchers, identifier: UInt64, owner: (any Sendable)?) {
            self.watchers = watchers
            self.identifier = identifier
            self.owner = owner
        }

        deinit {
            // The watcher's captured objects are released outside the lock.
            let entry = watchers.state.withLock { $0.entries.removeValue(forKey: identifier) }
            _ = consume entry
        }
    }
}
