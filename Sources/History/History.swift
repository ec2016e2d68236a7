import SocketIO
import TransportAPI

/// The history of a server's rooms: a ``HistoryStore`` on a thread of its own, which may wait for the disk.
///
/// A server appends each message before it sends it, with its number, to the devices that are connected. A device that was away
/// asks for a page after the last number that it has, for example by a request. ``HistoryCursor`` brings both together.
public final class History: Sendable {
    private let store: any HistoryStore
    private let thread: BlockingThread
    private let limit: Int
    private let waiting = Locked(0)

    /// Opens a store.
    ///
    /// - Parameters:
    ///   - store: The store, which nothing else uses.
    ///   - maximumWaiting: How many calls may wait. One more is refused. Default 1024.
    /// - Throws: The error of the store, or `.resourcesExhausted` if the system has no thread left.
    public nonisolated(nonsending) init(_ store: any HistoryStore, maximumWaiting: Int = 1024)
        async throws(TransportError)
    {
        do throws(SystemError) { thread = try BlockingThread("history") } catch {
            throw TransportError(
                .resourcesExhausted,
                .configure,
                "the thread of the history cannot be started: \(error); start fewer threads",
                detail: Int(error.number)
            )
        }
        (self.store, limit) = (store, max(1, maximumWaiting))
        try await perform { () throws(TransportError) in try store.open() }
    }

    /// Adds a message to a room, and returns its number. A message whose identifier the room has already gets the number of the
    /// first one, and is not added again.
    ///
    /// - Parameters:
    ///   - bytes: The message.
    ///   - id: An identifier that the sender chose, such as `ReceivedMessage.id`.
    ///   - sender: The user who has sent it.
    ///   - room: The room, which need not exist.
    /// - Throws: `.bufferFull` if too many calls wait, or the error of the store. Nothing was added then.
    public nonisolated(nonsending) func append(
        _ bytes: [UInt8],
        id: String,
        sender: String,
        to room: String
    ) async throws(TransportError) -> UInt64 {
        try await perform { [store] () throws(TransportError) in
            try store.append(bytes, id: id, sender: sender, to: room)
        }
    }

    /// Returns the entries of a room after a number, oldest first, within a limit.
    ///
    /// - Throws: `.bufferFull` if too many calls wait, or the error of the store.
    public nonisolated(nonsending) func page(
        of room: String,
        after number: UInt64,
        _ limit: HistoryPageLimit = .init()
    ) async throws(TransportError) -> HistoryPage {
        try await perform { [store] () throws(TransportError) in try store.page(of: room, after: number, limit) }
    }

    /// Closes the store after all calls that wait. Later calls fail.
    public nonisolated(nonsending) func close() async {
        await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
            thread.run { [store] in
                store.close()
                continuation.resume()
            }
        }
    }

    private nonisolated(nonsending) func perform<Value: Sendable>(
        _ body: @escaping @Sendable () throws(TransportError) -> Value
    ) async throws(TransportError) -> Value {
        let hasRoom = waiting.withLock { waiting in
            guard waiting < limit else { return false }
            waiting += 1
            return true
        }
        guard hasRoom else {
            throw TransportError(.bufferFull, .open, "\(limit) calls of the history wait: try again later")
        }
        let result = await withUnsafeContinuation {
            (continuation: UnsafeContinuation<Result<Value, TransportError>, Never>) in
            thread.run { [waiting] in
                let result = Result { () throws(TransportError) in try body() }
                waiting.withLock { $0 -= 1 }
                continuation.resume(returning: result)
            }
        }
        return try result.get()
    }
}
