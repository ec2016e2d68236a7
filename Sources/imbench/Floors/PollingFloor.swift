#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Ping-pong between two threads that wait in epoll and then read until they have the whole message.
final class PollingFloor: Floor {
    private let pair: LoopbackPair
    private let bytes: Int
    private let message: UnsafeMutableRawBufferPointer
    private let readiness: Readiness
    private let farReadiness: Readiness
    private let ending = Ending()
    private let thread: WorkerThread

    init(_ pair: LoopbackPair, bytes: Int, _ farCore: Int?) throws(SystemFailure) {
        pair.setNonBlocking()
        var opened: [Readiness] = []
        do throws(SystemFailure) {
            opened.append(try Readiness(pair.near, isDatagram: pair.isDatagram))
            opened.append(try Readiness(pair.far, isDatagram: pair.isDatagram))
            let far = opened[1]
            thread = try WorkerThread(on: farCore) { [ending] in Self.answer(pair.far, far, bytes, ending) }
        } catch {
            for readiness in opened { readiness.close() }
            pair.closeBoth()
            throw error
        }
        (readiness, farReadiness) = (opened[0], opened[1])
        (self.pair, self.bytes) = (pair, bytes)
        message = FloorMessage.allocate(bytes)
    }

    deinit {
        ending.isRequested.store(true, ordering: .relaxed)
        pair.endFar()
        thread.join()
        readiness.close()
        farReadiness.close()
        pair.closeBoth()
        message.deallocate()
    }

    func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure) {
        guard let start = message.baseAddress else { return }
        var before = Clocks.monotonic()
        for _ in 0..<slice.rounds {
            guard Self.sendAll(pair.near, readiness, start, bytes),
                Self.receiveAll(pair.near, readiness, start, bytes) == .complete
            else { throw SystemFailure("no answer from the floor's other thread", errno: errno) }
            let after = Clocks.monotonic()
            histogram.record(after - before)
            if after >= slice.deadline { return }
            before = after
        }
    }

    private static func answer(_ socket: Int32, _ readiness: Readiness, _ bytes: Int, _ ending: Ending) {
        let message = FloorMessage.allocate(bytes)
        defer { message.deallocate() }
        guard let start = message.baseAddress else { return }
        while true {
            switch receiveAll(socket, readiness, start, bytes) {
            case .complete: guard sendAll(socket, readiness, start, bytes) else { return }
            case .timeout: if ending.isRequested.load(ordering: .relaxed) { return }
            case .end: return
            }
        }
    }

    private enum Received { case complete, timeout, end }

    @inline(__always)
    private static func sendAll(
        _ socket: Int32,
        _ readiness: Readiness,
        _ start: UnsafeMutableRawPointer,
        _ bytes: Int
    ) -> Bool {
        var done = 0
        while done < bytes {
            let count = send(socket, start + done, bytes - done, FloorMessage.noSignal)
            if count > 0 {
                done += count
            } else if errno == EAGAIN || errno == EWOULDBLOCK {
                guard readiness.wait(forWriting: true) != .failed else { return false }
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }

    /// Waits, then reads until the message is complete or the socket is empty. Nothing is read beyond the message: the far
    /// side sends no more until it has been answered, and what it then sends is a new edge.
    @inline(__always)
    private static func receiveAll(
        _ socket: Int32,
        _ readiness: Readiness,
        _ start: UnsafeMutableRawPointer,
        _ bytes: Int
    ) -> Received {
        var done = 0
        while done < bytes {
            switch readiness.wait(forWriting: false) {
            case .ready: break
            case .timeout: return .timeout
            case .failed: return .end
            }
            while done < bytes {
                let count = recv(socket, start + done, bytes - done, 0)
                if count > 0 {
                    done += count
                } else if count == 0 {
                    return .end
                } else if errno == EAGAIN || errno == EWOULDBLOCK {
                    break
                } else if errno != EINTR {
                    return .end
                }
            }
        }
        return .complete
    }
}
