import Foundation
import Synchronization

/// An operation that the system refused, as a sentence.
struct SystemFailure: Error, Sendable, Hashable {
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// `action` failed with this error number.
    init(_ action: String, errno number: Int32) {
        message = "\(action): \(String(cString: strerror(number)))"
    }
}

/// The text of a file of at most `limit` bytes. The error names the file and the reason.
func readText(_ path: String, limit: Int) throws(SystemFailure) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemFailure("cannot read \(path)", errno: errno) }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        let count = read(descriptor, &chunk, chunk.count)
        if count < 0, errno == EINTR { continue }
        guard count >= 0 else { throw SystemFailure("cannot read \(path)", errno: errno) }
        guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
        bytes += chunk.prefix(count)
        guard bytes.count <= limit else { throw SystemFailure("cannot read \(path): more than \(limit) bytes") }
    }
}

/// The text of a file; `nil` if it cannot be read or has more than `limit` bytes.
func readFile(_ path: String, limit: Int) -> String? {
    do throws(SystemFailure) { return try readText(path, limit: limit) } catch { return nil }
}

/// Makes a folder that can be written to, unless there is one. The error names the folder and the reason.
func makeFolder(_ path: String) throws(SystemFailure) {
    if mkdir(path, 0o755) != 0, errno != EEXIST { throw SystemFailure("cannot make the folder \(path)", errno: errno) }
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemFailure("cannot use the folder \(path)", errno: errno) }
    close(descriptor)
    guard access(path, W_OK) == 0 else { throw SystemFailure("cannot write into \(path)", errno: errno) }
}

/// Writes everything, or returns `false` with `errno` set.
@discardableResult
func writeAll(_ descriptor: Int32, _ text: String) -> Bool {
    var text = text
    return text.withUTF8 { bytes in
        var bytes = UnsafeRawBufferPointer(bytes)
        while !bytes.isEmpty {
            let count = write(descriptor, bytes.baseAddress, bytes.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(count))
        }
        return true
    }
}

/// The target of a report: standard output, or a file. The file is opened before the measurement, so a wrong name fails
/// immediately and not after two minutes. Its former content is replaced only when the report is written. A new file is
/// removed again if the command ends without a report.
struct ReportTarget: ~Copyable {
    private let descriptor: Int32
    private let path: String?
    private let isNew: Bool
    private let hasReport = Atomic<Bool>(false)

    /// - Parameter path: the file, or `nil` for standard output.
    init(path: String? = nil) throws(SystemFailure) {
        self.path = path
        guard let path else {
            (descriptor, isNew) = (STDOUT_FILENO, false)
            return
        }
        let new = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        isNew = new >= 0
        // O_CREAT is there for a link whose target is missing.
        descriptor = isNew ? new : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SystemFailure("cannot write \(path)", errno: errno) }
    }

    deinit {
        guard let path else { return }
        if isNew, !hasReport.load(ordering: .relaxed) { unlink(path) }
        close(descriptor)
    }

    var isTerminal: Bool { path == nil && Terminal.isTerminal(descriptor) }

    /// Only a terminal gets colour.
    var style: Style { Style(isOn: path == nil && Terminal.allowsColour(descriptor)) }

    /// Writes the whole text. If the reader of a pipe has closed it, the process ends by SIGPIPE.
    func write(_ text: String) throws(SystemFailure) {
        hasReport.store(true, ordering: .relaxed)
        // A pipe or a device cannot be truncated, and need not be.
        if path != nil { _ = ftruncate(descriptor, 0) }
        guard writeAll(descriptor, text) else {
            if errno == EPIPE { Interruption.endByBrokenPipe() }
            throw SystemFailure("cannot write \(path ?? "to standard output")", errno: errno)
        }
    }
}
