import CommandSupport
import Foundation
import Synchronization

/// The target of a report: standard output, or a file. The file is opened before the measurement, so a wrong name fails
/// immediately and not after two minutes. Its former content is replaced only when the report is written. A new file is
/// removed again if the command ends without a report.
package struct ReportTarget: ~Copyable {
    private let descriptor: Int32
    private let path: String?
    private let isNew: Bool
    private let hasReport = Atomic<Bool>(false)

    /// - Parameter path: the file, or `nil` for standard output.
    package init(path: String? = nil) throws(SystemFailure) {
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

    package var isTerminal: Bool { path == nil && Terminal.isTerminal(descriptor) }

    /// The columns and rows of the terminal; `nil` for files and pipes.
    package var size: (columns: Int, rows: Int)? { isTerminal ? Terminal.size(descriptor) : nil }

    /// Only a terminal gets colour.
    package var style: Style { Style(isOn: path == nil && Terminal.allowsColour(descriptor)) }

    /// Writes the whole text. If the reader of a pipe has closed it, the process ends by SIGPIPE.
    package func write(_ text: String) throws(SystemFailure) {
        hasReport.store(true, ordering: .relaxed)
        // A pipe or a device cannot be truncated, and need not be.
        if path != nil { _ = ftruncate(descriptor, 0) }
        guard writeAll(descriptor, text) else {
            if errno == EPIPE { Interruption.endByBrokenPipe() }
            throw SystemFailure("cannot write \(path ?? "to standard output")", errno: errno)
        }
    }
}
