import SocketIO

/// The system calls with which the file of a store is changed. A test replaces them by calls that fail.
struct FileCalls: Sendable {
    /// Writes bytes at an offset, and returns how many, or -1 with errno (pwrite(2)).
    var write: @Sendable (_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int = {
        pwrite($0, $1.baseAddress, $1.count, off_t($2))
    }
    /// Sets the size (ftruncate(2)).
    var truncate: @Sendable (_ file: Int32, _ size: Int) -> Int32 = { ftruncate($0, off_t($1)) }
    /// Returns when everything is on the disk (fsync(2)).
    var sync: @Sendable (_ file: Int32) -> Int32 = { file in
        #if canImport(Darwin)
        // fsync does not empty the disk's own cache there. Some file systems do not know the other call.
        if fcntl(file, F_FULLFSYNC) == 0 { return 0 }
        #endif
        return fsync(file)
    }
    /// Replaces a file by another (rename(2)).
    var rename: @Sendable (_ old: String, _ new: String) -> Int32 = { SocketIO.rename($0, $1) }
}
