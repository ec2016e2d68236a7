import SocketIO
import TransportAPI

/// Keeps other stores away from a file, in this process and in others. The lock is that of a second file, which stays when the
/// first one is replaced. So there is no moment at which one store locks the old file and another one the new file.
struct StoreLock: ~Copyable {
    private let file: Descriptor

    /// Locks the store at this path. Returns at once.
    ///
    /// - Throws: `.storageFailed` if another store has it, or if the file of the lock cannot be created.
    init(_ path: String) throws(TransportError) {
        let name = path + ".lock"
        let raw = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard raw >= 0 else {
            let error = StoreFailure("open")
            throw .cannotOpen(path, "its lock '\(name)' cannot be created: \(error)", number: error.number)
        }
        let file = Descriptor(raw)
        // Of the locks of Unix, flock(2) also keeps away other descriptors of this process, and exists everywhere.
        while flock(raw, LOCK_EX | LOCK_NB) != 0 {
            let error = StoreFailure("flock")
            switch error.number {
            case EINTR: continue
            case EWOULDBLOCK: throw .inUse(path, by: Self.owner(raw))
            default: throw .cannotOpen(path, "'\(name)' cannot be locked: \(error)", number: error.number)
            }
        }
        // This lock alone lets others ask for the process that has it. It may fail.
        var request = Self.request
        _ = fcntl(raw, F_SETLK, &request)
        self.file = file
    }

    deinit {
        // A process that is just being started may still have a copy of the descriptor, which would keep the lock.
        _ = flock(file.raw, LOCK_UN)
    }

    /// Names the owner of a lock as well as the system does.
    private static func owner(_ raw: Int32) -> String {
        var request = request
        guard fcntl(raw, F_GETLK, &request) == 0, request.l_type != Int16(F_UNLCK), request.l_pid > 0 else {
            return "another store of this process, or another process,"
        }
        return "process \(request.l_pid)"
    }

    /// A lock for writing, of the whole file.
    private static var request: flock {
        var request = SocketIO.flock()
        request.l_type = Int16(F_WRLCK)
        request.l_whence = Int16(SEEK_SET)
        return request
    }
}
