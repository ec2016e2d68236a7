import Primitives
import SocketIO
import TransportAPI

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#else
import Darwin
#endif

extension BlockingQueue {
    /// Runs work that may block, and waits for its result.
    nonisolated(nonsending) func perform<Value: Sendable>(
        _ work: @escaping @Sendable () throws(TransferError) -> Value
    ) async throws(TransferError) -> Value {
        try await withUnsafeContinuation(isolation: #isolation) { continuation in
            run { continuation.resume(returning: Result { () throws(TransferError) in try work() }) }
        }.get()
    }
}

/// A file that is read.
struct ReadFile: Sendable {
    let size: UInt64
    private let path: String
    private let descriptor: Int32

    /// Opens a file. It may block.
    init(_ path: String) throws(TransferError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .failed("open", path) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            let error = TransferError.failed("fstat", path)
            _ = posixClose(descriptor)
            throw error
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            _ = posixClose(descriptor)
            throw .file(TransportError(.storageFailed, .configure, "'\(path)' is not a regular file"))
        }
        (self.path, size) = (path, UInt64(clamping: status.st_size))
    }

    /// Reads at most `count` bytes; none at the size that the file had when it was opened.
    ///
    /// - Throws: `.file` if it has become shorter.
    nonisolated(nonsending) func read(
        _ count: Int,
        at offset: UInt64,
        on queue: any BlockingQueue
    ) async throws(TransferError) -> [UInt8] {
        let count = min(count, Int(clamping: size - min(size, offset)))
        guard count > 0 else { return [] }
        return try await queue.perform { () throws(TransferError) in
            var result = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                repeat {
                    result = pread(descriptor, buffer.baseAddress, count, off_t(offset))
                } while result < 0 && errno == EINTR
                filled = max(0, result)
            }
            if result < 0 { throw .failed("pread", path) }
            guard result > 0 else {
                throw .file(TransportError(.storageFailed, .open, "'\(path)' has become shorter while it was sent"))
            }
            return bytes
        }
    }

    /// Closes it after all reads.
    func close(on queue: any BlockingQueue) { queue.run { [descriptor] in _ = posixClose(descriptor) } }
}

/// A file that is received. Until it has all bytes, it has the name of its path, its transfer and `part`, so that the next
/// process continues it.
final class PartialFile: Sendable {
    /// How many bytes it has from an earlier attempt.
    let offset: UInt64
    /// Whether the file has its final name already, because the sender did not learn that.
    let isComplete: Bool
    private let path: String
    private let partPath: String
    private let descriptor: Int32
    // Only the queue uses it.
    private let hash: Locked<SHA256>

    /// Opens the file, and reads what it has. It may block.
    init(_ path: String, _ id: TransferID, size: UInt64?) throws(TransferError) {
        (self.path, partPath) = (path, "\(path).\(id).part")
        var descriptor = open(partPath, O_RDWR | O_CLOEXEC)
        var (isComplete, exists) = (false, false)
        if descriptor < 0, errno == ENOENT {
            descriptor = open(path, O_RDWR | O_CLOEXEC)
            (exists, isComplete) = (descriptor >= 0, descriptor >= 0)
            if descriptor < 0, errno == ENOENT {
                descriptor = open(partPath, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            }
        }
        guard descriptor >= 0 else { throw .failed("open", exists ? path : partPath) }
        self.descriptor = descriptor
        self.isComplete = isComplete
        do throws(TransferError) {
            let (count, hash) = try Self.read(descriptor, partPath)
            (offset, self.hash) = (count, Locked(hash))
        } catch {
            _ = posixClose(descriptor)
            throw error
        }
        // A file with another content must not be replaced.
        if isComplete, size != offset { throw .exists(path) }
        if let size, offset > size { throw .exists(partPath) }
    }

    deinit { _ = posixClose(descriptor) }

    private static func read(_ descriptor: Int32, _ path: String) throws(TransferError) -> (UInt64, SHA256) {
        var (hash, offset) = (SHA256(), UInt64(0))
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        while true {
            let count = pread(descriptor, &buffer, buffer.count, off_t(offset))
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw .failed("pread", path) }
            if count == 0 { return (offset, hash) }
            hash.add(Array(buffer.prefix(count)))
            offset += UInt64(count)
        }
    }

    /// Writes bytes at the end.
    nonisolated(nonsending) func write(
        _ bytes: [UInt8],
        at offset: UInt64,
        on queue: any BlockingQueue
    ) async throws(TransferError) {
        try await queue.perform { [self] () throws(TransferError) in
            var written = 0
            while written < bytes.count {
                let count = bytes.withUnsafeBytes { buffer in
                    pwrite(
                        descriptor,
                        buffer.baseAddress?.advanced(by: written),
                        bytes.count - written,
                        off_t(offset) + off_t(written)
                    )
                }
                if count < 0, errno == EINTR { continue }
                if count < 0 {
                    let error = TransferError.failed("pwrite", partPath)
                    // The rest of the file is that of the digest.
                    ftruncate(descriptor, off_t(offset))
                    throw error
                }
                written += count
            }
            hash.withLock { $0.add(bytes) }
        }
    }

    /// Checks the digest, and gives the file its final name once the disk has it.
    ///
    /// - Throws: `.refused` if the digest is another one. The bytes are removed then, so that the next attempt begins anew.
    nonisolated(nonsending) func finish(_ digest: [UInt8], on queue: any BlockingQueue) async throws(TransferError) {
        try await queue.perform { [self] () throws(TransferError) in
            guard hash.withLock({ $0.digest }) == digest else {
                if isComplete { throw .exists(path) }
                unlink(partPath)
                throw .refused(.corrupted)
            }
            if isComplete { return }
            guard fsync(descriptor) == 0 else { throw .failed("fsync", partPath) }
            guard rename(partPath, path) == 0 else { throw .failed("rename", path) }
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
            let handle = open(folder, O_RDONLY | O_CLOEXEC)
            if handle >= 0 {
                fsync(handle)
                _ = posixClose(handle)
            }
        }
    }
}

private func posixClose(_ descriptor: Int32) -> Int32 { close(descriptor) }

extension TransferError {
    /// The failure of a system call that has just left its errno.
    fileprivate static func failed(_ call: String, _ path: String) -> TransferError {
        let number = errno
        return .file(
            TransportError(.storageFailed, .open, "'\(path)': \(SystemError(call, number))", detail: Int(number))
        )
    }

    fileprivate static func exists(_ path: String) -> TransferError {
        .file(
            TransportError(
                .storageFailed,
                .open,
                "'\(path)' exists with another content; choose another path, or remove it"
            )
        )
    }
}

extension TransferRefusal {
    static let corrupted = TransferRefusal(.corrupted, "the bytes that arrived are not those that were sent")
}
