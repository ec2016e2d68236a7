import Primitives
import TransportAPI

/// Where the bytes of an outgoing transfer come from. Lives on the runtime of its transfer.
protocol TransferSource: AnyObject {
    /// The number of all bytes, if it is known.
    var size: UInt64? { get }
    /// The offset of the next bytes.
    var offset: UInt64 { get }
    /// The digest of all bytes that were read.
    var digest: [UInt8] { get }
    /// Reads at most so many bytes; none at the end.
    nonisolated(nonsending) func read(_ count: Int) async throws(TransferError) -> [UInt8]
    /// Goes to this offset.
    nonisolated(nonsending) func move(to offset: UInt64) async throws(TransferError)
    func close()
}

extension TransferSource {
    /// Reads and drops the bytes before this offset, whose digest is needed.
    nonisolated(nonsending) func skip(to offset: UInt64) async throws(TransferError) {
        while self.offset < offset {
            let count = Int(min(offset - self.offset, 256 << 10))
            guard try await !read(count).isEmpty else {
                throw .refused(TransferRefusal(.broken, "it wants bytes after the end"))
            }
        }
    }
}

/// The bytes of a sequence.
final class SequenceSource<Bytes: AsyncSequence>: TransferSource where Bytes.Element == [UInt8] {
    let size: UInt64?
    private(set) var offset: UInt64 = 0
    private var hash = SHA256()
    private var iterator: Bytes.AsyncIterator
    /// What the sequence has given and was not read yet.
    private var rest: ArraySlice<UInt8> = []

    init(_ bytes: Bytes, size: UInt64?) {
        iterator = bytes.makeAsyncIterator()
        self.size = size
    }

    var digest: [UInt8] { hash.digest }

    nonisolated(nonsending) func read(_ count: Int) async throws(TransferError) -> [UInt8] {
        while rest.isEmpty {
            do {
                guard let next = try await iterator.next(isolation: #isolation) else { break }
                rest = next[...]
            } catch {
                throw .source("\(error)")
            }
        }
        let bytes = Array(rest.prefix(count))
        rest = rest.dropFirst(count)
        let end = offset + UInt64(bytes.count)
        if let size, bytes.isEmpty ? end < size : end > size {
            throw .source(
                "the sequence has \(bytes.isEmpty ? "\(end)" : "more than \(size)") bytes, and \(size) were announced"
            )
        }
        offset = end
        hash.add(bytes)
        return bytes
    }

    nonisolated(nonsending) func move(to offset: UInt64) async throws(TransferError) {
        guard offset >= self.offset else { throw .sourceNotRepeatable }
        try await skip(to: offset)
    }

    func close() {}
}

/// The bytes of a file.
final class FileSource: TransferSource {
    let size: UInt64?
    private(set) var offset: UInt64 = 0
    private var hash = SHA256()
    /// The end of the bytes that the digest has.
    private var hashed: UInt64 = 0
    private let file: ReadFile
    private let queue: any BlockingQueue

    init(_ file: ReadFile, on queue: any BlockingQueue) {
        (self.file, self.queue) = (file, queue)
        size = file.size
    }

    var digest: [UInt8] { hash.digest }

    nonisolated(nonsending) func read(_ count: Int) async throws(TransferError) -> [UInt8] {
        let bytes = try await file.read(count, at: offset, on: queue)
        let end = offset + UInt64(bytes.count)
        if end > hashed {
            hash.add(Array(bytes.suffix(Int(end - hashed))))
            hashed = end
        }
        offset = end
        return bytes
    }

    nonisolated(nonsending) func move(to offset: UInt64) async throws(TransferError) {
        // What the digest does not have yet is read once.
        self.offset = min(offset, hashed)
        try await skip(to: offset)
    }

    func close() { file.close(on: queue) }
}
