/// What one non-blocking read or write came to.
package enum IOResult: Sendable, Hashable {
    /// So many bytes were moved; more than none.
    case bytes(Int)
    /// Nothing can be moved now; the event loop will tell when.
    case wouldBlock
    /// The peer has closed its half.
    case end
    /// The connection is broken.
    case failed(SystemError)

    /// What a system call's return value says.
    @inline(__always)
    init(_ count: Int, _ call: StaticString) {
        guard count <= 0 else {
            self = .bytes(count)
            return
        }
        guard count < 0 else {
            self = .end
            return
        }
        let number = errno
        self = number == EAGAIN || number == EWOULDBLOCK ? .wouldBlock : .failed(SystemError("\(call)", number))
    }
}

/// Repeats a system call that a signal interrupted.
@inline(__always)
func retryingInterrupts(_ call: () -> Int) -> Int {
    while true {
        let result = call()
        if result >= 0 || errno != EINTR { return result }
    }
}
