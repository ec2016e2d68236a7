import SocketIO
import TransportAPI

/// Why a part of an operation of a store failed.
struct StoreFailure: Error, CustomStringConvertible {
    /// What happened, and what to do.
    let description: String
    /// The errno if there is one.
    let number: Int32?

    /// Creates a failure from its sentence.
    init(sentence: String) { (description, number) = (sentence, nil) }

    /// Creates the failure of a system call that has just left its errno.
    init(_ call: String, _ number: Int32 = errno) {
        let error = SystemError(call, number)
        description = "\(error); \(Self.advice(number))"
        self.number = number
    }

    /// What to do about an error of a file.
    private static func advice(_ number: Int32) -> String {
        switch number {
        case EACCES, EPERM: "allow this process to write to the file and its folder"
        case EROFS: "choose a folder that can be written to"
        case ENOSPC, EDQUOT: "free space on the disk"
        case EMFILE, ENFILE: "close files, or raise the limit of open files"
        case EFBIG: "raise the limit of the size of files"
        case EIO: "check the disk"
        default: "check the file and its folder"
        }
    }
}

extension TransportError {
    /// The error of a store that could not be opened: what was seen, what was expected, what to do.
    package static func cannotOpen(_ path: String, _ why: String, number: Int32? = nil) -> TransportError {
        TransportError(
            .storageFailed,
            .configure,
            "the store '\(path)' cannot be opened: \(why)",
            detail: number.map(Int.init)
        )
    }

    /// The error of a store that could not write.
    package static func cannotWrite(_ path: String, _ why: String, number: Int32? = nil) -> TransportError {
        TransportError(
            .storageFailed,
            .open,
            "nothing was written to the store '\(path)': \(why)",
            detail: number.map(Int.init)
        )
    }

    /// The error of a store that another one has open.
    package static func inUse(_ path: String, by owner: String) -> TransportError {
        cannotOpen(
            path,
            "\(owner) has it open, and only one store at a time may; close that one first, or use another path"
        )
    }

    /// The error of a store whose file was written by another version of this package.
    static func otherVersion(_ path: String, _ version: some BinaryInteger, expected: some BinaryInteger)
        -> TransportError
    {
        cannotOpen(
            path,
            """
            its format is version \(version), and this program knows version \(expected); use the program that wrote it, or \
            another path
            """
        )
    }

    /// The error of a store with more bytes than its limit allows.
    static func storeTooLarge(_ path: String, _ bytes: Int, maximum: Int) -> TransportError {
        cannotOpen(path, "it has records of more than \(bytes) bytes, and \(maximum) are allowed; raise maximumBytes")
    }

    /// The error of a write after which a store would have more bytes than its limit allows.
    static func storeFull(_ path: String, _ bytes: Int, maximum: Int) -> TransportError {
        cannotWrite(
            path,
            "its records would have \(bytes) bytes, and \(maximum) are allowed; wait until messages have ended, or raise maximumBytes"
        )
    }

    /// The error of a write to a store that is not open.
    package static func storeClosed(_ path: String) -> TransportError {
        cannotWrite(path, "it is not open; open it first")
    }
}

/// Checks the path of a store before anything is created.
///
/// - Throws: `.storageFailed` if the path is empty, has a zero byte, names something other than a file, or names a file of a
///   folder that does not exist.
func checkStorePath(_ path: String) throws(TransportError) {
    guard !path.isEmpty, !path.utf8.contains(0) else {
        throw .cannotOpen(path, "this is no path; give that of a file in a folder of the app")
    }
    let folder = folder(of: path)
    var status = stat()
    guard stat(folder, &status) == 0 else {
        let error = StoreFailure("stat")
        guard error.number == ENOENT else {
            throw .cannotOpen(path, "its folder '\(folder)' cannot be read: \(error)", number: error.number)
        }
        throw .cannotOpen(path, "its folder '\(folder)' does not exist; create it first", number: ENOENT)
    }
    guard status.st_mode & S_IFMT == S_IFDIR else {
        throw .cannotOpen(path, "'\(folder)' is not a folder; correct the path", number: ENOTDIR)
    }
    // A link is refused, because its target may be open under another name.
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { return }
    let kind =
        switch status.st_mode & S_IFMT {
        case S_IFDIR: "a folder"
        case S_IFLNK: "a symbolic link"
        default: "a device, a socket or a pipe"
        }
    throw .cannotOpen(path, "it is \(kind), and not a file; give the path of a file, which may be a new one")
}

/// Returns the folder of a path.
func folder(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
}
