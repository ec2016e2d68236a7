import Synchronization

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

/// Two threads that wake each other in turn, each blocked in read(2) on an eventfd (on a pipe, on systems without it).
/// A round trip is two wake-ups.
final class WakeUpFloor: Floor {
    private let there: Signal
    private let back: Signal
    private let ending = Ending()
    private let thread: WorkerThread

    init(_ farCore: Int?) throws(SystemFailure) {
        let there = try Signal()
        let back: Signal
        do throws(SystemFailure) {
            back = try Signal()
        } catch {
            there.close()
            throw error
        }
        (self.there, self.back) = (there, back)
        do throws(SystemFailure) {
            thread = try WorkerThread(on: farCore) { [ending] in
                while there.wait(), !ending.isRequested.load(ordering: .relaxed), back.raise() {}
            }
        } catch {
            there.close()
            back.close()
            throw error
        }
    }

    deinit {
        ending.isRequested.store(true, ordering: .relaxed)
        _ = there.raise()
        thread.join()
        there.close()
        back.close()
    }

    func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure) {
        var before = Clocks.monotonic()
        for _ in 0..<slice.rounds {
            guard there.raise(), back.wait() else { throw SystemFailure("wake-up", errno: errno) }
            let after = Clocks.monotonic()
            histogram.record(after - before)
            if after >= slice.deadline { return }
            before = after
        }
    }
}

/// Something that one thread raises and another waits for.
private struct Signal: Sendable {
    private let readEnd: Int32
    private let writeEnd: Int32

    init() throws(SystemFailure) {
        #if os(Linux)
        readEnd = eventfd(0, Int32(O_CLOEXEC))
        writeEnd = readEnd
        guard readEnd >= 0 else { throw SystemFailure("eventfd", errno: errno) }
        #else
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemFailure("pipe", errno: errno) }
        (readEnd, writeEnd) = (ends[0], ends[1])
        #endif
    }

    @inline(__always)
    func raise() -> Bool {
        var one: UInt64 = 1
        while write(writeEnd, &one, 8) != 8 {
            guard errno == EINTR else { return false }
        }
        return true
    }

    @inline(__always)
    func wait() -> Bool {
        var value: UInt64 = 0
        while read(readEnd, &value, 8) != 8 {
            guard errno == EINTR else { return false }
        }
        return true
    }

    func close() {
        closeDescriptor(readEnd)
        if writeEnd != readEnd { closeDescriptor(writeEnd) }
    }
}
