import CSocketIO

/// A file descriptor with one owner. It cannot be copied, and is closed exactly once, when its owner lets go of it.
package struct Descriptor: ~Copyable, Sendable {
    /// The number, for system calls only; whoever holds it must not close it.
    package let raw: Int32

    /// Takes over a descriptor that the system has just handed out.
    package init(_ raw: Int32) {
        self.raw = raw
    }

    deinit {
        _ = csocketio_close(raw)
    }
}
