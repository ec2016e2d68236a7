import CSocketIO
import CommandSupport
import Foundation

/// Ping-pong between two threads over sockets on loopback. The threads block in recv(2), or wait in epoll and then read until
/// they have the whole message.
package final class SocketFloor: Floor {
    private let pair: LoopbackPair
    private let bytes: Int
    private let message: UnsafeMutableRawBufferPointer
    /// The readiness of each side; `nil` if the threads block.
    private let readiness: (near: Readiness, far: Readiness)?
    private let isEnding = Flag()
    private let thread: WorkerThread

    init(_ pair: LoopbackPair, bytes: Int, polls: Bool, _ farCore: Int?) throws(SystemFailure) {
        (self.pair, self.bytes) = (pair, bytes)
        message = Self.allocate(bytes)
        var opened: [Readiness] = []
        do throws(SystemFailure) {
            if polls {
                for socket in [pair.near, pair.far] {
                    BareSocket.setNonBlocking(socket)
                    opened.append(try Readiness(socket, isDatagram: pair.isDatagram))
                }
            }
            let far = opened.last
            thread = try WorkerThread(on: farCore) { [isEnding] in Self.answer(pair.far, far, bytes, isEnding) }
        } catch {
            for readiness in opened { readiness.close() }
            message.deallocate()
            pair.closeBoth()
            throw error
        }
        readiness = polls ? (opened[0], opened[1]) : nil
    }

    deinit {
        isEnding.raise()
        pair.endFar()
        thread.join()
        readiness?.near.close()
        readiness?.far.close()
        pair.closeBoth()
        message.deallocate()
    }

    package func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure) {
        guard let start = message.baseAddress else { return }
        let near = readiness?.near
        try slice.run(into: &histogram) {
            Self.sendAll(pair.near, near, start, bytes) && Self.receiveAll(pair.near, near, start, bytes) == .complete
        }
    }

    /// Sends each message back until the sockets end.
    private static func answer(_ socket: Int32, _ readiness: Readiness?, _ bytes: Int, _ isEnding: Flag) {
        let message = allocate(bytes)
        defer { message.deallocate() }
        guard let start = message.baseAddress else { return }
        while true {
            switch receiveAll(socket, readiness, start, bytes) {
            case .complete: guard sendAll(socket, readiness, start, bytes) else { return }
            // The datagram that ends this thread may be lost.
            case .timeout: if isEnding.isRaised { return }
            case .end: return
            }
        }
    }

    /// Memory for one message, whose bytes differ.
    private static func allocate(_ bytes: Int) -> UnsafeMutableRawBufferPointer {
        let message = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes), alignment: 16)
        for index in message.indices { message[index] = UInt8(truncatingIfNeeded: index &* 31) }
        return message
    }

    private enum Received { case complete, timeout, end }

    @inline(__always)
    private static func sendAll(
        _ socket: Int32,
        _ readiness: Readiness?,
        _ start: UnsafeMutableRawPointer,
        _ bytes: Int
    ) -> Bool {
        var done = 0
        while done < bytes {
            let count = send(socket, start + done, bytes - done, BareSocket.noSignal)
            if count > 0 {
                done += count
            } else if let readiness, errno == EAGAIN || errno == EWOULDBLOCK {
                guard readiness.wait(forWriting: true) != .failed else { return false }
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }

    /// Reads until the message is complete, and waits whenever the socket is empty. It reads nothing beyond the message,
    /// because the peer sends no more before the answer. The next message is a new edge.
    @inline(__always)
    private static func receiveAll(
        _ socket: Int32,
        _ readiness: Readiness?,
        _ start: UnsafeMutableRawPointer,
        _ bytes: Int
    ) -> Received {
        var done = 0
        while done < bytes {
            if let readiness {
                switch readiness.wait(forWriting: false) {
                case .ready: break
                case .timeout: return .timeout
                case .failed: return .end
                }
            }
            while done < bytes {
                let count = recv(socket, start + done, bytes - done, 0)
                if count > 0 {
                    done += count
                } else if count == 0 {
                    return .end
                } else if errno == EAGAIN || errno == EWOULDBLOCK {
                    if readiness == nil { return .timeout }
                    break
                } else if errno != EINTR {
                    return .end
                }
            }
        }
        return .complete
    }
}

/// Two sockets that are connected with each other over 127.0.0.1.
package struct LoopbackPair: Sendable {
    var near: Int32
    var far: Int32
    /// Whether they are UDP sockets. Their receive calls return after a second, because a datagram may be lost. TCP sockets
    /// have no timer, because it would cost time in every wait.
    var isDatagram: Bool

    /// A TCP connection without Nagle's algorithm (RFC 896), which would delay each message after another one.
    static func stream() throws(SystemFailure) -> LoopbackPair {
        let listener = try bound(BareSocket.stream)
        defer { close(listener) }
        guard listen(listener, 1) == 0 else { throw SystemFailure("listen", errno: errno) }
        let near = try bound(BareSocket.stream)
        let far: Int32
        do throws(SystemFailure) {
            try BareSocket.connect(near, port: BareSocket.port(of: listener))
            far = accept(listener, nil, nil)
            guard far >= 0 else { throw SystemFailure("accept", errno: errno) }
        } catch {
            close(near)
            throw error
        }
        for socket in [near, far] { BareSocket.set(socket, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
        return LoopbackPair(near: near, far: far, isDatagram: false)
    }

    /// Two UDP sockets.
    static func datagram() throws(SystemFailure) -> LoopbackPair {
        let near = try bound(BareSocket.datagram)
        let far: Int32
        do throws(SystemFailure) {
            far = try bound(BareSocket.datagram)
        } catch {
            close(near)
            throw error
        }
        let pair = LoopbackPair(near: near, far: far, isDatagram: true)
        do throws(SystemFailure) {
            try BareSocket.connect(near, port: BareSocket.port(of: far))
            try BareSocket.connect(far, port: BareSocket.port(of: near))
        } catch {
            pair.closeBoth()
            throw error
        }
        var second = timeval(tv_sec: 1, tv_usec: 0)
        for socket in [near, far] {
            setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &second, socklen_t(MemoryLayout<timeval>.size))
        }
        return pair
    }

    func closeBoth() {
        close(near)
        close(far)
    }

    /// Ends the thread that reads from `far`: TCP signals the end of the stream, UDP sends an empty datagram.
    func endFar() {
        if isDatagram { _ = send(near, nil, 0, 0) } else { _ = shutdown(near, Int32(SHUT_WR)) }
    }

    /// A socket on 127.0.0.1 with a port that the system chooses.
    private static func bound(_ type: Int32) throws(SystemFailure) -> Int32 {
        let socket = try BareSocket.open(type)
        do throws(SystemFailure) {
            try BareSocket.bind(socket)
        } catch {
            close(socket)
            throw error
        }
        return socket
    }
}

/// Waits for one socket: epoll, edge-triggered and registered once, or poll(2) on systems without it.
package struct Readiness: Sendable {
    package enum Outcome: Sendable { case ready, timeout, failed }

    private let descriptor: Int32
    /// In milliseconds. −1 waits without a limit.
    private let timeout: Int32

    #if os(Linux)
    package init(_ socket: Int32, isDatagram: Bool) throws(SystemFailure) {
        timeout = isDatagram ? 1000 : -1
        descriptor = epoll_create1(Int32(O_CLOEXEC))
        guard descriptor >= 0 else { throw SystemFailure("epoll_create1", errno: errno) }
        var event = epoll_event()
        // TCP reports room to write only after a send that did not fit. UDP reports it after every datagram that the peer has
        // read, which would wake this thread again in each round, and one datagram always fits.
        event.events = CSOCKETIO_EPOLLIN | CSOCKETIO_EPOLLET | (isDatagram ? 0 : CSOCKETIO_EPOLLOUT)
        guard epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event) == 0 else {
            let number = errno
            close()
            throw SystemFailure("epoll_ctl", errno: number)
        }
    }

    @inline(__always)
    package func wait(forWriting: Bool) -> Outcome {
        var event = epoll_event()
        while true {
            let count = epoll_wait(descriptor, &event, 1, timeout)
            if count > 0 { return .ready }
            if count == 0 { return .timeout }
            guard errno == EINTR else { return .failed }
        }
    }

    package func close() { _ = Foundation.close(descriptor) }
    #else
    package init(_ socket: Int32, isDatagram: Bool) throws(SystemFailure) {
        timeout = isDatagram ? 1000 : -1
        descriptor = socket
    }

    package func wait(forWriting: Bool) -> Outcome {
        var entry = pollfd(fd: descriptor, events: Int16(forWriting ? POLLOUT : POLLIN), revents: 0)
        while true {
            let count = poll(&entry, 1, timeout)
            if count > 0 { return .ready }
            if count == 0 { return .timeout }
            guard errno == EINTR else { return .failed }
        }
    }

    /// The owner of the socket closes it.
    package func close() {}
    #endif
}
