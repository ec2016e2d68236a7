import CSocketIO
import CommandSupport
import Foundation

/// Two threads that wake each other in turn, each blocked in read(2) on an eventfd (on a pipe, on systems without it).
/// A round trip is two wake-ups.
package final class WakeUpFloor: Floor {
    private let there: Signal
    private let back: Signal
    private let isEnding = Flag()
    private let thread: WorkerThread

    init(_ farCore: Int?) throws(SystemFailure) {
        var signals: [Signal] = []
        do throws(SystemFailure) {
            for _ in 0..<2 { signals.append(try Signal()) }
            let (there, back) = (signals[0], signals[1])
            thread = try WorkerThread(on: farCore) { [isEnding] in
                while there.wait(), !isEnding.isRaised, back.raise() {}
            }
        } catch {
            for signal in signals { signal.close() }
            throw error
        }
        (there, back) = (signals[0], signals[1])
    }

    deinit {
        isEnding.raise()
        _ = there.raise()
        thread.join()
        there.close()
        back.close()
    }

    package func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure) {
        try slice.run(into: &histogram) { there.raise() && back.wait() }
    }
}

/// A counter in the kernel that one thread raises and another waits for.
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
        _ = Foundation.close(readEnd)
        if writeEnd != readEnd { _ = Foundation.close(writeEnd) }
    }
}
