import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Ping-pong between two threads that block in recv(2).
final class BlockingFloor: Floor {
    private let pair: LoopbackPair
    private let bytes: Int
    private let message: UnsafeMutableRawBufferPointer
    private let ending = Ending()
    private let thread: WorkerThread

    init(_ pair: LoopbackPair, bytes: Int, _ farCore: Int?) throws(SystemFailure) {
        self.pair = pair
        self.bytes = bytes
        message = FloorMessage.allocate(bytes)
        do throws(SystemFailure) {
            thread = try WorkerThread(on: farCore) { [ending] in Self.answer(pair.far, bytes, ending) }
        } catch {
            message.deallocate()
            pair.closeBoth()
            throw error
        }
    }

    deinit {
        ending.isRequested.store(true, ordering: .relaxed)
        pair.endFar()
        thread.join()
        pair.closeBoth()
        message.deallocate()
    }

    func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure) {
        guard let start = message.baseAddress else { return }
        var before = Clocks.monotonic()
        for _ in 0..<slice.rounds {
            guard Self.sendAll(pair.near, start, bytes), Self.receiveAll(pair.near, start, bytes) == .complete else {
                throw SystemFailure("no answer from the floor's other thread", errno: errno)
            }
            let after = Clocks.monotonic()
            histogram.record(after - before)
            if after >= slice.deadline { return }
            before = after
        }
    }

    /// The other thread: sends back what it gets until the sockets end.
    private static func answer(_ socket: Int32, _ bytes: Int, _ ending: Ending) {
        let message = FloorMessage.allocate(bytes)
        defer { message.deallocate() }
        guard let start = message.baseAddress else { return }
        while true {
            switch receiveAll(socket, start, bytes) {
            case .complete: guard sendAll(socket, start, bytes) else { return }
            case .timeout: if ending.isRequested.load(ordering: .relaxed) { return }
            case .end: return
            }
        }
    }

    private enum Received { case complete, timeout, end }

    @inline(__always)
    private static func sendAll(_ socket: Int32, _ start: UnsafeMutableRawPointer, _ bytes: Int) -> Bool {
        var done = 0
        while done < bytes {
            let count = send(socket, start + done, bytes - done, FloorMessage.noSignal)
            if count > 0 { done += count } else if errno != EINTR { return false }
        }
        return true
    }

    @inline(__always)
    private static func receiveAll(_ socket: Int32, _ start: UnsafeMutableRawPointer, _ bytes: Int) -> Received {
        var done = 0
        while done < bytes {
            let count = recv(socket, start + done, bytes - done, 0)
            if count > 0 {
                done += count
            } else if count == 0 {
                return .end
            } else if errno == EAGAIN || errno == EWOULDBLOCK {
                return .timeout
            } else if errno != EINTR {
                return .end
            }
        }
        return .complete
    }
}

/// Tells an answering thread to end when a datagram that should have told it was lost.
final class Ending: Sendable {
    let isRequested = Atomic<Bool>(false)
}

enum FloorMessage {
    /// Memory for one message, with bytes that differ from each other.
    static func allocate(_ bytes: Int) -> UnsafeMutableRawBufferPointer {
        let message = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes), alignment: 16)
        for index in message.indices { message[index] = UInt8(truncatingIfNeeded: index &* 31) }
        return message
    }

    /// A peer that is gone shows as EPIPE and not as a signal.
    #if canImport(Darwin)
    static let noSignal: Int32 = 0
    #else
    static let noSignal = Int32(MSG_NOSIGNAL)
    #endif
}
