import CSocketIO

/// A file descriptor with one owner. It cannot be copied, and is closed exactly once, when its owner destroys it.
package struct Descriptor: ~Copyable, Sendable {
    /// The number, for system calls only. Only this value may close it.
    package let raw: Int32

    /// Takes the ownership of a descriptor that the system has just returned.
    package init(_ raw: Int32) {
        self.raw = raw
    }

    deinit {
        _ = csocketio_close(raw)
    }
}
