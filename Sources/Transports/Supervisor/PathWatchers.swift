import Protocols
import SocketIO
import TransportAPI

/// Those who watch a network path, and the path that they are told of.
///
/// No lock is held while a watcher is told, so that it may do as it likes; yet each is told of one path after the other. A
/// path that comes while another is being told waits, and is replaced by a later one: watchers see the last, not all.
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

        /// The next watcher that has not been told of the present path.
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

    /// Tells everybody of `path`, unless they have been told of it already.
    func set(_ path: NetworkPath) {
        state.withLock { $0.path = path }
        tell()
    }

    /// Tells `watcher` of the present path and of each that follows, until the result is let go. The result keeps `owner`.
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
            // What the watcher holds is let go outside of the lock.
            let entry = watchers.state.withLock { $0.entries.removeValue(forKey: identifier) }
            _ = consume entry
        }
    }
}
