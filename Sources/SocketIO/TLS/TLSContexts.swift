import CSocketIO
import Primitives

/// The contexts of one TLS library, one for each configuration. They are loaded outside the loop, and again when a file
/// has changed.
package final class TLSContexts: Sendable {
    /// The contexts of the system's OpenSSL.
    package static let shared = TLSContexts(OpenSSL.shared)

    /// How many configurations are remembered.
    private static let limit = 64

    private struct Entry {
        var stamps: [FileStamp?]
        var context: any TLSContext
    }

    private let provider: any TLSProvider
    private let password: (@Sendable (String) -> String?)?
    private let entries = Locked<[TLSSettings: Entry]>([:])

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
        let result: Result<any TLSContext, TLSSetupError> = await firstAnswer(
            on: loop,
            by: deadline,
            late: .failure(.busy("the certificates could not be loaded in time")),
            cancelled: .failure(.cancelled)
        ) { give in
            refresh(settings, give)
        }
        return try result.get()
    }

    /// Calls `done`, on any thread, with the context of a configuration and the present content of its files.
    package func refresh(
        _ settings: TLSSettings,
        _ done: @escaping @Sendable (Result<any TLSContext, TLSSetupError>) -> Void
    ) {
        let stamps = FileStamp.stamps(of: settings)
        if let entry = entries.withLock({ $0[settings] }), entry.stamps == stamps {
            return done(.success(entry.context))
        }
        guard provider.readsFiles else { return done(load(settings, stamps)) }
        do throws(SystemError) {
            try startThread("im-tls") { done(self.load(settings, stamps)) }
        } catch {
            done(.failure(.busy("the certificates cannot be loaded: \(error)")))
        }
    }

    /// Loads the context. The stamps are older than the content, so a file that changes meanwhile is loaded again.
    private func load(_ settings: TLSSettings, _ stamps: [FileStamp?]) -> Result<any TLSContext, TLSSetupError> {
        do throws(TLSSetupError) {
            let context = try provider.makeContext(settings, password: password)
            entries.withLock { entries in
                if entries.count >= Self.limit, entries[settings] == nil, let any = entries.keys.first {
                    entries[any] = nil
                }
                entries[settings] = Entry(stamps: stamps, context: context)
            }
            return .success(context)
        } catch {
            return .failure(error)
        }
    }
}
