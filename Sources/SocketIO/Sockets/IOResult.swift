/// The result of one non-blocking read or write.
package enum IOResult: Sendable, Hashable {
    /// This many bytes were transferred, at least one.
    case bytes(Int)
    /// No byte can be transferred now. The event loop reports when that is possible.
    case wouldBlock
    /// The peer has closed its half of the connection.
    case end
    /// The connection is broken.
    case failed(SystemError)
    /// TLS has ended the connection. A last message to the peer (an alert) was written if possible.
    case insecure(TLSFailure)

    /// Translates the return value of a system call.
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

/// Repeats a system call while signals interrupt it.
@inline(__always)
func retryingInterrupts(_ call: () -> Int) -> Int {
    while true {
        let result = call()
        if result >= 0 || errno != EINTR { return result }
    }
}
