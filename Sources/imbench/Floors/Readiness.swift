#if os(Linux)
import CSocketIO
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Waits for one socket: epoll, edge-triggered and registered once, or poll(2) on systems without it.
struct Readiness: Sendable {
    enum Outcome: Sendable { case ready, timeout, failed }

    private let descriptor: Int32
    /// In milliseconds; −1 waits for ever.
    private let timeout: Int32

    #if os(Linux)
    init(_ socket: Int32, isDatagram: Bool) throws(SystemFailure) {
        timeout = isDatagram ? 1000 : -1
        descriptor = epoll_create1(Int32(O_CLOEXEC))
        guard descriptor >= 0 else { throw SystemFailure("epoll_create1", errno: errno) }
        var event = epoll_event()
        // TCP reports room to write only after a send that did not fit. UDP reports it after every datagram that the other
        // side has read, which would wake this thread once more a round; and one datagram always fits.
        event.events = CSOCKETIO_EPOLLIN | CSOCKETIO_EPOLLET | (isDatagram ? 0 : CSOCKETIO_EPOLLOUT)
        guard epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event) == 0 else {
            let number = errno
            close()
            throw SystemFailure("epoll_ctl", errno: number)
        }
    }

    @inline(__always)
    func wait(forWriting: Bool) -> Outcome {
        var event = epoll_event()
        while true {
            let count = epoll_wait(descriptor, &event, 1, timeout)
            if count > 0 { return .ready }
            if count == 0 { return .timeout }
            guard errno == EINTR else { return .failed }
        }
    }

    func close() { closeDescriptor(descriptor) }
    #else
    init(_ socket: Int32, isDatagram: Bool) throws(SystemFailure) {
        timeout = isDatagram ? 1000 : -1
        descriptor = socket
    }

    func wait(forWriting: Bool) -> Outcome {
        var entry = pollfd(fd: descriptor, events: Int16(forWriting ? POLLOUT : POLLIN), revents: 0)
        while true {
            let count = poll(&entry, 1, timeout)
            if count > 0 { return .ready }
            if count == 0 { return .timeout }
            guard errno == EINTR else { return .failed }
        }
    }

    /// The socket belongs to somebody else.
    func close() {}
    #endif
}
