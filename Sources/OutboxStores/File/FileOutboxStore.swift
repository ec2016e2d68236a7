import SocketIO
import TransportAPI

/// Keeps the records of an outbox in one file that it appends to. It needs no library.
///
/// A write is one frame at the end of the file, with a checksum, so it is complete or not there. The file is rewritten when most
/// of it is no longer needed. Only places and lengths of values are in memory. The format is documented in
/// `Docs/reference/outbox-store.md`.
///
/// Beside the file `outbox` there is a file `outbox.lock`, which keeps away other stores, and at times a file `outbox.new`. All
/// of them are readable by this user only. The folder must be on a disk of this machine, because network file systems promise
/// less.
public final class FileOutboxStore: OutboxStore {
    /// What the threads of the outbox and of the syncs share. The lock is held while the disk works, because both threads may
    /// wait for it.
    private struct State {
        var file: LogFile?
        var background: BackgroundSync?
    }

    private let path: String
    private let sync: StoreSync
    private let maximumBytes: Int
    private let calls: FileCalls
    private let state = Locked(State())

    /// Describes a store. Nothing happens before ``open()``.
    ///
    /// - Parameters:
    ///   - path: The path of the file, which is created if it does not exist. Its folder must exist.
    ///   - sync: When the file is synced to the disk. Default: within a second.
    ///   - maximumBytes: The most bytes of all records. A record counts 14 bytes more than its value. A write beyond it fails.
    ///     Default 256 MiB; at least 1.
    public convenience init(path: String, sync: StoreSync = .default, maximumBytes: Int = 256 << 20) {
        self.init(path: path, sync: sync, maximumBytes: maximumBytes, calls: FileCalls())
    }

    /// Describes a store that changes its file by other system calls.
    init(path: String, sync: StoreSync, maximumBytes: Int, calls: FileCalls) {
        (self.path, self.sync, self.maximumBytes, self.calls) = (path, sync, max(1, maximumBytes), calls)
    }

    deinit { close() }

    /// Opens the file, or creates it, and returns all records in the order of their keys. The end of a write that was
    /// interrupted is removed.
    ///
    /// - Throws: `.storageFailed` if the file cannot be read or written, is damaged, has another format, has more than
    ///   `maximumBytes`, or is open already. The file is then unchanged.
    public func open() throws(TransportError) -> [StoredRecord] {
        try state.withLock { state throws(TransportError) in
            guard state.file == nil else { throw .inUse(path, by: "this store") }
            var records: [StoredRecord] = []
            let file = try LogFile(path, maximumBytes: maximumBytes, calls, records: &records)
            if case .interval(let interval) = sync {
                do throws(SystemError) {
                    state.background = try BackgroundSync(every: interval) { [weak self] in self?.syncInBackground() }
                } catch {
                    throw .cannotOpen(
                        path,
                        "its thread cannot be started: \(error); start fewer threads",
                        number: error.number
                    )
                }
            }
            state.file = file
            return records
        }
    }

    /// Appends the changes to the file as one frame.
    ///
    /// - Throws: `.storageFailed` if nothing was changed: the disk is full or has failed, or a limit would be exceeded.
    public func write(_ changes: [StoreChange]) throws(TransportError) {
        try state.withLock { state throws(TransportError) in
            guard let file = state.file else { throw .storeClosed(path) }
            guard !changes.isEmpty else { return }
            let after = file.index.bytes(after: changes)
            guard after <= maximumBytes || after < file.index.bytes else {
                throw .storeFull(path, after, maximum: maximumBytes)
            }
            let (size, most) = (OutboxLog.bodyBytes(changes), OutboxLogReader.maximumFrameBytes(maximumBytes))
            guard size <= most else {
                throw .cannotWrite(
                    path,
                    "the changes have \(size) bytes, and \(most) are allowed in one write; write fewer"
                )
            }
            do throws(StoreFailure) { try file.repair() } catch {
                throw .cannotWrite(path, "an earlier failure cannot be repaired: \(error)", number: error.number)
            }
            do throws(StoreFailure) { try file.append(changes, syncing: sync == .always) } catch {
                throw .cannotWrite(path, "\(error), and try again", number: error.number)
            }
            file.compact()
            if file.isDirty { state.background?.request() }
        }
    }

    /// Syncs the file unless the store never does, closes it, and lets other stores open it.
    public func close() {
        state.withLock { state in
            if let file = state.file, sync != .none {
                // There is nobody left to report a failure to.
                if file.mustRewrite { try? file.rewrite() } else if file.isDirty { try? file.sync() }
            }
            state.background?.stop()
            state = State()
        }
    }

    private func syncInBackground() {
        state.withLock { state in
            // After a failure, the next write begins with a new file.
            if let file = state.file, file.isDirty, !file.mustRewrite { try? file.sync() }
        }
    }
}
