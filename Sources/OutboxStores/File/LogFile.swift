import SocketIO
import TransportAPI

/// The open file of a ``FileOutboxStore``. It is used by one thread at a time.
final class LogFile {
    /// The size of the pieces in which the file is read, and of the frames in which it is copied.
    private static let pieceBytes = 1 << 18
    /// As many bytes without a use are kept in any case, so that a small file is seldom rewritten.
    private static let keptDeadBytes = 1 << 20

    private let path: String
    private let calls: FileCalls
    private let lock: StoreLock
    private var file: Descriptor
    private(set) var index = RecordIndex<OutboxLog.Place>()
    /// The offset after the last complete frame.
    private(set) var end = 0
    /// Whether there may be bytes after `end`, which a failed write has left.
    private var hasTail = false
    /// Whether a sync has failed. The system may then have given up bytes that were written before, and reports it only once.
    /// Only a new file is certain to have everything.
    private(set) var mustRewrite = false
    /// Whether the file has bytes that were not synced.
    private(set) var isDirty = false
    /// Whether the name of the file was not synced.
    private var folderIsDirty = false
    /// The number of dead bytes from which on the file is rewritten again, after an attempt has failed.
    private var nextAttempt = 0

    private var newPath: String { path + ".new" }
    private var deadBytes: Int { end - OutboxLog.headerBytes - index.bytes }

    /// Opens the file at this path, or creates it.
    ///
    /// - Throws: `.storageFailed`, and changes nothing, if the file is damaged or cannot be read.
    init(
        _ path: String,
        maximumBytes: Int,
        _ calls: FileCalls,
        records: inout [StoredRecord]
    ) throws(TransportError) {
        try checkStorePath(path)
        (self.path, self.calls) = (path, calls)
        lock = try StoreLock(path)
        let raw = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        let error = StoreFailure("open")
        guard raw >= 0 || error.number == ENOENT else { throw .cannotOpen(path, "\(error)", number: error.number) }
        // A new store has no descriptor before it is written for the first time.
        file = Descriptor(raw)
        // A rewriting that was interrupted has left it.
        unlink(newPath)
        if raw >= 0 { records = try read(maximumBytes: maximumBytes) }
        do throws(StoreFailure) {
            if end == 0 {
                // The name appears with a complete header.
                try rewrite()
            } else if hasTail {
                try cut()
                // Otherwise a power cut could bring back the tail after a shorter frame.
                try sync()
            }
        } catch {
            throw .cannotOpen(path, "\(error)", number: error.number)
        }
    }

    // MARK: Reading

    private func read(maximumBytes: Int) throws(TransportError) -> [StoredRecord] {
        var reader = OutboxLogReader(maximumBytes: maximumBytes)
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceBytes, alignment: 16)
        defer { piece.deallocate() }
        var offset = 0
        while true {
            let count: Int
            do throws(StoreFailure) { count = try readPiece(into: piece, at: offset) } catch {
                throw .cannotOpen(path, "\(error)", number: error.number)
            }
            guard count > 0 else { break }
            do throws(OutboxLogReader.Problem) {
                try reader.read(UnsafeRawBufferPointer(rebasing: piece[..<count]))
            } catch {
                throw error.error(path, maximumBytes)
            }
            offset += count
        }
        do throws(OutboxLogReader.Problem) {
            let contents = try reader.finish()
            (index, end) = (contents.index, contents.end)
            hasTail = offset > end
            return contents.records
        } catch {
            throw error.error(path, maximumBytes)
        }
    }

    /// Fills the buffer from the file. Returns the number of bytes, which is smaller only at the end.
    private func readPiece(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreFailure) -> Int {
        var count = 0
        while count < buffer.count, let start = buffer.baseAddress {
            let result = pread(file.raw, start + count, buffer.count - count, off_t(offset + count))
            if result == 0 { break }
            if result > 0 {
                count += result
            } else if errno != EINTR {
                throw StoreFailure("read")
            }
        }
        return count
    }

    // MARK: Writing

    /// Appends one frame.
    func append(_ changes: [StoreChange], syncing: Bool) throws(StoreFailure) {
        var places: [OutboxLog.Place] = []
        let frame = OutboxLog.frame(changes, at: end, places: &places)
        hasTail = true
        do throws(StoreFailure) {
            try write(frame, to: file.raw, at: end)
            isDirty = true
            if syncing { try sync() }
        } catch {
            // If this fails, the next write does it.
            try? cut()
            throw error
        }
        hasTail = false
        end += frame.count
        var next = 0
        for change in changes {
            switch change {
            case .put(let record):
                index.put(record.key, length: record.value.count, at: places[next])
                next += 1
            case .remove(let key): index.remove(key)
            }
        }
    }

    private func write(_ bytes: [UInt8], to raw: Int32, at offset: Int) throws(StoreFailure) {
        let number = bytes.withUnsafeBytes { bytes -> Int32 in
            var written = 0
            while written < bytes.count {
                let result = calls.write(raw, UnsafeRawBufferPointer(rebasing: bytes[written...]), offset + written)
                if result > 0 {
                    written += result
                } else if result == 0 || errno != EINTR {
                    return result == 0 ? EIO : errno
                }
            }
            return 0
        }
        if number != 0 { throw StoreFailure("write", number) }
    }

    /// Removes what follows the last complete frame.
    private func cut() throws(StoreFailure) {
        guard calls.truncate(file.raw, end) == 0 else { throw StoreFailure("ftruncate") }
        hasTail = false
        isDirty = true
    }

    /// Waits until everything is on the disk.
    func sync() throws(StoreFailure) {
        if folderIsDirty { try syncFolder() }
        guard calls.sync(file.raw) == 0 else {
            mustRewrite = true
            throw StoreFailure("fsync")
        }
        isDirty = false
    }

    private func syncFolder() throws(StoreFailure) {
        let raw = open(folder(of: path), O_RDONLY | O_CLOEXEC)
        guard raw >= 0 else { throw StoreFailure("open") }
        let folder = Descriptor(raw)
        // Some network file systems cannot sync a folder.
        guard calls.sync(folder.raw) == 0 || errno == EINVAL || errno == ENOTSUP else { throw StoreFailure("fsync") }
        folderIsDirty = false
    }

    /// Repairs what an earlier failure has left. Call it before ``append(_:syncing:)``.
    func repair() throws(StoreFailure) {
        if mustRewrite { try rewrite() } else if hasTail { try cut() }
    }

    // MARK: Rewriting

    /// Rewrites the file if most of it is no longer needed. If that is not possible, for example because the disk is full, the
    /// old file stays.
    func compact() {
        guard deadBytes > max(index.bytes, Self.keptDeadBytes), deadBytes >= nextAttempt else { return }
        do throws(StoreFailure) { try rewrite() } catch { nextAttempt = 2 * deadBytes }
    }

    /// Copies all records to a new file, and replaces the old one. If it throws, the old file is in use as before.
    func rewrite() throws(StoreFailure) {
        unlink(newPath)
        let raw = open(newPath, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard raw >= 0 else { throw StoreFailure("open") }
        let new = Descriptor(raw)
        var (newIndex, newEnd) = (RecordIndex<OutboxLog.Place>(), 0)
        do throws(StoreFailure) {
            try write(OutboxLog.header, to: raw, at: 0)
            newEnd = OutboxLog.headerBytes
            var (changes, size) = ([StoreChange](), 0)
            func writeFrame() throws(StoreFailure) {
                guard !changes.isEmpty else { return }
                var places: [OutboxLog.Place] = []
                let frame = OutboxLog.frame(changes, at: newEnd, places: &places)
                try write(frame, to: raw, at: newEnd)
                newEnd += frame.count
                for case (.put(let record), let place) in zip(changes, places) {
                    newIndex.put(record.key, length: record.value.count, at: place)
                }
                (changes, size) = ([], 0)
            }
            for (key, entry) in index.entries.sorted(by: { $0.value.place.offset < $1.value.place.offset }) {
                let bytes = RecordIndex<OutboxLog.Place>.bytes(ofValue: entry.length)
                if size + bytes > Self.pieceBytes { try writeFrame() }
                changes.append(.put(StoredRecord(key, try value(entry))))
                size += bytes
            }
            try writeFrame()
            guard calls.sync(raw) == 0 else { throw StoreFailure("fsync") }
            guard calls.rename(newPath, path) == 0 else { throw StoreFailure("rename") }
        } catch {
            unlink(newPath)
            throw error
        }
        file = new
        (index, end) = (newIndex, newEnd)
        (hasTail, mustRewrite, isDirty, nextAttempt) = (false, false, false, 0)
        // Until this succeeds, a power cut may bring back the old file, so the next sync tries again.
        folderIsDirty = true
        do { try syncFolder() } catch { isDirty = true }
    }

    private func value(_ entry: RecordIndex<OutboxLog.Place>.Entry) throws(StoreFailure) -> [UInt8] {
        let value = try [UInt8](unsafeUninitializedCapacity: entry.length) { buffer, count throws(StoreFailure) in
            count = try readPiece(into: UnsafeMutableRawBufferPointer(buffer), at: entry.place.offset)
        }
        guard value.count == entry.length, value.withUnsafeBytes({ CRC32C.of($0) }) == entry.place.checksum else {
            throw StoreFailure(
                sentence: """
                    the value at byte \(entry.place.offset) of the file has changed since it was written; close the store, and \
                    open it again to see which records are left
                    """
            )
        }
        return value
    }
}

extension OutboxLogReader.Problem {
    /// The error of a store at this path.
    fileprivate func error(_ path: String, _ maximumBytes: Int) -> TransportError {
        switch self {
        case .foreign:
            .cannotOpen(path, "the file does not begin with 'imoutbox', so it is not an outbox; choose another path")
        case .version(let version): .otherVersion(path, version, expected: OutboxLog.version)
        case .damaged(let offset, let what):
            .cannotOpen(
                path,
                """
                the frame at byte \(offset) is damaged: \(what); nothing was changed, because accepted messages may follow it. \
                Restore the file from a copy, or move it away to begin with an empty outbox
                """
            )
        case .frameTooLarge(let offset, let bytes):
            .cannotOpen(
                path,
                """
                the frame at byte \(offset) has \(bytes) bytes, and \(OutboxLogReader.maximumFrameBytes(maximumBytes)) are \
                allowed; raise maximumBytes
                """
            )
        case .recordsTooLarge(let bytes): .storeTooLarge(path, bytes, maximum: maximumBytes)
        }
    }
}
