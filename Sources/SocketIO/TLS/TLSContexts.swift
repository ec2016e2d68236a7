import CSocketIO
import Primitives

/// The system's OpenSSL, loaded at first use.
private struct SystemTLS: TLSProvider {
    var readsFiles: Bool { true }

    func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        try OpenSSL.shared.makeContext(settings, password: password)
    }
}

/// The contexts of one TLS library, one for each configuration. They are loaded outside the loop, and again when a file
/// has changed.
package final class TLSContexts: Sendable {
    /// The contexts of the system's OpenSSL.
    package static let shared = TLSContexts(SystemTLS())

    /// How many configurations are remembered, besides those in use.
    private static let limit = 64

    package typealias Done = @Sendable (Result<any TLSContext, TLSSetupError>) -> Void

    private struct Entry {
        var stamps: [FileStamp?]
        var context: any TLSContext
        /// The number of its last use.
        var lastUse: UInt64
    }

    private struct State {
        var entries: [TLSSettings: Entry] = [:]
        /// The callers that wait for a configuration that is being loaded, by number.
        var waiting: [TLSSettings: [UInt64: Done]] = [:]
        /// The last number that was given to a caller or a use.
        var last: UInt64 = 0

        mutating func next() -> UInt64 {
            last += 1
            return last
        }

        /// Returns the context of a configuration if the files are unchanged.
        mutating func context(of settings: TLSSettings, _ stamps: [FileStamp?]) -> (any TLSContext)? {
            guard let entry = entries[settings], entry.stamps == stamps else { return nil }
            let use = next()
            entries[settings]?.lastUse = use
            return entry.context
        }

        /// Drops the configuration that was not used for longest, of those that no server and no connection uses. A
        /// context that is in use stays, because another one would not know its sessions.
        mutating func makeRoom() {
            for settings in entries.sorted(by: { $0.value.lastUse < $1.value.lastUse }).map(\.key) {
                guard let (stamps, lastUse) = entries[settings].map({ ($0.stamps, $0.lastUse) }) else { continue }
                weak let context = entries[settings]?.context
                entries[settings] = nil
                guard let context else { return }
                entries[settings] = Entry(stamps: stamps, context: context, lastUse: lastUse)
            }
        }
    }

    private let provider: any TLSProvider
    private let password: (@Sendable (String) -> String?)?
    private let state = Locked(State())

    /// Creates an empty collection.
    ///
    /// - Parameter password: returns the password of the encrypted private key in the file of this name.
    package init(_ provider: any TLSProvider, password: (@Sendable (String) -> String?)? = nil) {
        self.provider = provider
        self.password = password
    }

    /// Returns the context of a configuration, with the present content of its files.
    ///
    /// - Parameters:
    ///   - settings: the configuration.
    ///   - loop: the loop whose timer watches the deadline.
    ///   - deadline: when to give up, in nanoseconds of ``MonotonicClock``.
    @concurrent
    package func context(
        for settings: TLSSettings,
        on loop: EventLoop,
        deadline: Int64
    ) async throws(TLSSetupError) -> any TLSContext {
        let caller = state.withLock { $0.next() }
        let result: Result<any TLSContext, TLSSetupError> = await firstAnswer(
            on: loop,
            by: deadline,
            late: .failure(.busy("the certificates could not be loaded in time")),
            cancelled: .failure(.cancelled)
        ) { give in
            refresh(settings, caller, give)
        }
        // A load that never ends must not keep the callers that have given up.
        let wasLoaded = state.withLock { state in
            state.waiting[settings]?.removeValue(forKey: caller)
            return state.entries[settings] != nil
        }
        do throws(TLSSetupError) {
            return try result.get()
        } catch .setting(let name, let problem) where wasLoaded {
            throw .changedSetting(name, problem)
        }
    }

    /// Calls `done`, on any thread, with the context of a configuration and the present content of its files. All files are
    /// looked at by another thread, because a file system can hang.
    package func refresh(_ settings: TLSSettings, _ done: @escaping Done) {
        refresh(settings, state.withLock { $0.next() }, done)
    }

    /// Whether a configuration names files, which can change.
    package func hasFiles(_ settings: TLSSettings) -> Bool {
        provider.readsFiles && settings.files.contains { !$0.isText }
    }

    private func refresh(_ settings: TLSSettings, _ caller: UInt64, _ done: @escaping Done) {
        let hasFiles = hasFiles(settings)
        let found: (context: (any TLSContext)?, mustLoad: Bool) = state.withLock { state in
            if !hasFiles, let context = state.context(of: settings, []) { return (context, false) }
            // Connections that are opened at the same time share one load.
            let isLoading = state.waiting[settings] != nil
            state.waiting[settings, default: [:]][caller] = done
            return (nil, !isLoading)
        }
        if let context = found.context { return done(.success(context)) }
        guard found.mustLoad else { return }
        guard provider.readsFiles else { return load(settings) }
        do throws(SystemError) {
            try startThread("im-tls") { self.load(settings) }
        } catch {
            finish(settings, .failure(.busy("the certificates cannot be loaded: \(error)")))
        }
    }

    /// Loads the context, unless the files are unchanged. The stamps are older than the content, so a file that changes
    /// meanwhile is loaded again.
    private func load(_ settings: TLSSettings) {
        let stamps = provider.readsFiles ? FileStamp.stamps(of: settings) : []
        if let context = state.withLock({ $0.context(of: settings, stamps) }) {
            return finish(settings, .success(context))
        }
        do throws(TLSSetupError) {
            let context = try provider.makeContext(settings, password: password)
            state.withLock { state in
                if state.entries.count >= Self.limit, state.entries[settings] == nil { state.makeRoom() }
                state.entries[settings] = Entry(stamps: stamps, context: context, lastUse: state.next())
            }
            finish(settings, .success(context))
        } catch {
            finish(settings, .failure(error))
        }
    }

    private func finish(_ settings: TLSSettings, _ result: Result<any TLSContext, TLSSetupError>) {
        for done in state.withLock({ $0.waiting.removeValue(forKey: settings) ?? [:] }).values { done(result) }
    }
}
