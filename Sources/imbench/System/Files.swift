#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The text of a small file; `nil` if it cannot be read or has more than `limit` bytes.
func readFile(_ path: String, limit: Int) -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16384)
    while true {
        let count = chunk.withUnsafeMutableBytes { read(file, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count >= 0 else { return nil }
        guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
        guard bytes.count + count <= limit else { return nil }
        bytes += chunk.prefix(count)
    }
}

/// The target of a report: standard output, or a file. The file is opened before the measurement, so that a wrong name fails at
/// once and not after two minutes. Its former content is replaced only when the report is written.
struct ReportTarget: ~Copyable {
    private let descriptor: Int32
    private let path: String?

    /// - Parameter path: the file, or `nil` for standard output.
    init(path: String?) throws(SystemFailure) {
        self.path = path
        if let path {
            descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
            guard descriptor >= 0 else { throw SystemFailure("cannot write \(path)", errno: errno) }
        } else {
            descriptor = STDOUT_FILENO
        }
    }

    deinit {
        if path != nil { close(descriptor) }
    }

    var isTerminal: Bool { path == nil && Terminal.isTerminal(descriptor) }

    /// Whether colour may be used.
    var style: Style { Style(isOn: path == nil && Terminal.allowsColour(descriptor)) }

    /// Writes the whole report.
    func write(_ text: String) throws(SystemFailure) {
        // A pipe or a device cannot be truncated, and need not be.
        if path != nil { _ = ftruncate(descriptor, 0) }
        guard writeAll(descriptor, text) else {
            throw SystemFailure("cannot write \(path ?? "to standard output")", errno: errno)
        }
    }
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

/// The system's sentence for an error number.
func systemMessage(_ number: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard strerror_r(number, &buffer, buffer.count) == 0 else { return "error \(number)" }
    return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
}

/// close(2), for types that have a `close` of their own.
func closeDescriptor(_ descriptor: Int32) {
    _ = close(descriptor)
}
