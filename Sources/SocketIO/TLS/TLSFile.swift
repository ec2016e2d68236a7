import CSocketIO
import Primitives

/// Certificates or a key in PEM format: the path of a file, or the text itself.
package struct TLSFile: Sendable, Hashable, CustomStringConvertible {
    /// The kinds of files.
    enum Kind { case file, directory }

    /// The path, or the text itself, which may be a private key.
    @Secret package private(set) var text: String

    /// Creates the description of a file from a path or a text.
    package init(_ text: String) {
        self.text = text
    }

    /// Whether this is the text itself.
    var isText: Bool { PEM.isText(text) }

    /// The path in quotes. Nothing is shown that can be secret.
    package var description: String {
        if isText { return "a text in PEM format" }
        return PEM.canBeSecret(text) ? "a value of \(text.utf8.count) bytes" : "'\(text)'"
    }

    /// Returns the kind of a readable file.
    ///
    /// - Throws: the error of the setting of this name.
    func kind(_ setting: String) throws(TLSSetupError) -> Kind {
        if isText { return .file }
        var status = stat()
        guard stat(text, &status) == 0, access(text, R_OK) == 0 else {
            throw .setting(setting, "has \(self), which cannot be read: \(SystemError("open").sentence)")
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: return .file
        case S_IFDIR where setting == "ca": return .directory
        default: throw .setting(setting, "has \(self), which is not a file")
        }
    }
}

/// The properties of a file that change with its content.
struct FileStamp: Hashable, Sendable {
    private var device: UInt64
    private var number: UInt64
    private var size: Int64
    private var seconds: Int64
    private var nanoseconds: Int64

    /// Returns the stamps of all files that `settings` name, in order; `nil` for a file that does not exist.
    static func stamps(of settings: TLSSettings) -> [FileStamp?] {
        settings.files.filter { !$0.isText }.map { FileStamp($0.text) }
    }

    private init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        #if canImport(Darwin)
        let time = status.st_mtimespec
        #else
        let time = status.st_mtim
        #endif
        device = UInt64(truncatingIfNeeded: status.st_dev)
        number = UInt64(truncatingIfNeeded: status.st_ino)
        size = Int64(status.st_size)
        (seconds, nanoseconds) = (Int64(time.tv_sec), Int64(time.tv_nsec))
    }
}
