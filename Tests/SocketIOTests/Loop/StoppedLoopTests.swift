import Synchronization
import Testing

@testable import SocketIO

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The steps of the signal handler so far, and whether it may return.
private let stop = Atomic<Int>(0)

/// Stops the thread of a loop as SIGSTOP stops a process: a signal interrupts its wait, and its handler does not return
/// before a timer is due and bytes have come.
@Suite("A loop whose thread was stopped", .timeLimit(.minutes(1)), .serialized)
struct StoppedLoopTests {
    private final class Record: @unchecked Sendable {
        // Unchecked, because only the loop uses it while it runs.
        var events: [String] = []
    }

    private final class Reader: PollHandler {
        let record: Record
        init(_ record: Record) { self.record = record }
        func ready(_ readiness: Readiness) { if readiness.contains(.read) { record.events.append("bytes") } }
    }

    private func onLoop<Value: Sendable>(_ loop: EventLoop, _ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in loop.execute { continuation.resume(returning: work()) } }
    }

    @Test("Bytes that have come meanwhile are reported before an overdue timer fires", arguments: PollerKind.allCases)
    func bytesFirst(kind: PollerKind) async throws {
        var action = sigaction()
        #if canImport(Darwin)
        action.__sigaction_u.__sa_handler = { _ in
            stop.store(1, ordering: .sequentiallyConsistent)
            while stop.load(ordering: .sequentiallyConsistent) != 2 { sched_yield() }
        }
        #else
        action.__sigaction_handler.sa_handler = { _ in
            stop.store(1, ordering: .sequentiallyConsistent)
            while stop.load(ordering: .sequentiallyConsistent) != 2 { sched_yield() }
        }
        #endif
        var former = sigaction()
        #expect(sigaction(SIGUSR2, &action, &former) == 0)
        defer { _ = sigaction(SIGUSR2, &former, nil) }
        var events: [String]?
        // A busy machine needs longer.
        var time: Int64 = 50_000_000
        repeat {
            events = try await stopped(kind, within: time)
            time *= 2
        } while events == nil && !Task.isCancelled
        #expect(events == ["bytes", "timer"])
    }

    /// Stops a loop before its timer is due, after `time` in nanoseconds, until bytes have come. Returns the order in which it
    /// handled both, or `nil` if it was stopped too late.
    private func stopped(_ kind: PollerKind, within time: Int64) async throws -> [String]? {
        stop.store(0, ordering: .sequentiallyConsistent)

        let loop = try EventLoop(poller: kind, name: "stopped")
        let record = Record()
        var ends: [Int32] = [-1, -1]
        #expect(pipe(&ends) == 0)
        let (reading, writing) = (ends[0], ends[1])
        try Platform.makeNonBlocking(reading)
        let due = MonotonicClock.now() + time
        let thread = await onLoop(loop) { () -> UInt in
            do { _ = try loop.watch(reading, for: .read, Reader(record)) } catch { record.events.append("\(error)") }
            // The program that started the tests may have blocked the signal.
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGUSR2)
            pthread_sigmask(SIG_UNBLOCK, &signals, nil)
            _ = loop.schedule(at: due) { record.events.append("timer") }
            return UInt(bitPattern: unsafeBitCast(pthread_self(), to: Int.self))
        }
        let target = unsafeBitCast(Int(bitPattern: thread), to: pthread_t.self)
        // The wait begins after this job. A signal that comes before it stops the thread there, which is no less a stop.
        #expect(pthread_kill(target, SIGUSR2) == 0)
        while stop.load(ordering: .sequentiallyConsistent) == 0, !Task.isCancelled { await Task.yield() }
        let isInTime = MonotonicClock.now() < due
        #expect(write(writing, "x", 1) == 1)
        while MonotonicClock.now() < due + 5_000_000 { await Task.yield() }
        stop.store(2, ordering: .sequentiallyConsistent)
        var events: [String] = []
        while events.count < 2, !Task.isCancelled { events = await onLoop(loop) { record.events } }
        close(writing)
        return isInTime ? events : nil
    }
}
