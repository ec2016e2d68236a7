import Foundation

/// An operation that the system refused, as a sentence.
package struct SystemFailure: Error, Sendable, Hashable {
    package var message: String

    package init(_ message: String) {
        self.message = message
    }

    /// `action` failed with this error number.
    package init(_ action: String, errno number: Int32) {
        message = "\(action): \(String(cString: strerror(number)))"
    }
}

/// The text of a file of at most `limit` bytes. The error names the file and the reason.
package func readText(_ path: String, limit: Int) throws(SystemFailure) -> String {
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
package func readFile(_ path: String, limit: Int) -> String? {
    do throws(SystemFailure) { return try readText(path, limit: limit) } catch { return nil }
}

/// Makes a folder that can be written to, unless there is one. The error names the folder and the reason.
package func makeFolder(_ path: String) throws(SystemFailure) {
    if mkdir(path, 0o755) != 0, errno != EEXIST { throw SystemFailure("cannot make the folder \(path)", errno: errno) }
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemFailure("cannot use the folder \(path)", errno: errno) }
    close(descriptor)
    guard access(path, W_OK) == 0 else { throw SystemFailure("cannot write into \(path)", errno: errno) }
}

/// Writes everything, or returns `false` with `errno` set.
@discardableResult
package func writeAll(_ descriptor: Int32, _ text: String) -> Bool {
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

/// The value of the first `key : value` line.
package func fieldValue(_ key: String, in text: String) -> String? {
    for line in text.split(separator: "\n") where line.hasPrefix(key) {
        guard let colon = line.firstIndex(of: ":") else { continue }
        let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        if !value.isEmpty { return String(value) }
    }
    return nil
}
