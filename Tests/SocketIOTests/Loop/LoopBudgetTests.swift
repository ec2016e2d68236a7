import Testing

@testable import SocketIO

@Suite("The shares of an event loop's turn")
struct LoopBudgetTests {
    @Test("are for timers too, that are due at the same moment and take long")
    func lateTimers() async throws {
        let loop = try EventLoop(name: "late")
        let order = Locked<[String]>([])
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            loop.execute {
                for number in 0..<3 {
                    _ = loop.schedule(at: loop.now) {
                        order.withLock { $0.append("timer \(number)") }
                        if number == 0 { loop.execute { order.withLock { $0.append("job") } } }
                        let end = MonotonicClock.now() + EventLoop.share
                        while MonotonicClock.now() <= end {}
                        if number == 2 { continuation.resume() }
                    }
                }
            }
        }
        #expect(order.withLock { $0 } == ["timer 0", "timer 1", "job", "timer 2"])
    }

    @Test("end for all in the line at the same moment, and elsewhere for each by itself")
    func ends() async throws {
        let loop = try EventLoop(name: "line")
        let isRight = await withCheckedContinuation { (continuation: CheckedContinuation<[Bool], Never>) in
            loop.execute { loop.deferToNextTick(LineEnd(loop, continuation)) }
        }
        #expect(isRight == [true, true])
    }

    @Test("are smaller for those who read on while messages wait to be sent")
    func besidePatient() async throws {
        let loop = try EventLoop(name: "patient")
        let order = Locked<[String]>([])
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            loop.execute {
                loop.runAtLowPriority(Sender(loop, order))
                loop.deferToNextTick(Reader(order, "first"))
                loop.deferToNextTick(Reader(order, "second") { continuation.resume() })
            }
        }
        #expect(order.withLock { $0 } == ["sender", "first", "sender", "second"])
    }
}

/// Sends in each turn, until the second reader has had its share.
private final class Sender: LowPriorityHandler {
    private let loop: EventLoop
    private let order: Locked<[String]>

    init(_ loop: EventLoop, _ order: Locked<[String]>) {
        (self.loop, self.order) = (loop, order)
    }

    func runLowPriorityWork() {
        guard order.withLock({ $0.last != "second" }) else { return }
        order.withLock { $0.append("sender") }
        loop.runAtLowPriority(self)
    }
}

/// Uses up the share that is left for readers while others send.
private final class Reader: DeferredHandler {
    private let order: Locked<[String]>
    private let name: String
    private let done: () -> Void

    init(_ order: Locked<[String]>, _ name: String, _ done: @escaping () -> Void = {}) {
        (self.order, self.name, self.done) = (order, name, done)
    }

    func runDeferredWork() {
        order.withLock { $0.append(name) }
        let end = MonotonicClock.now() + EventLoop.shareBesidePatient
        while MonotonicClock.now() <= end {}
        done()
    }
}

/// Asks when it should stop: in the line, and then outside of it.
private final class LineEnd: DeferredHandler {
    private let loop: EventLoop
    private let done: CheckedContinuation<[Bool], Never>

    init(_ loop: EventLoop, _ done: CheckedContinuation<[Bool], Never>) {
        (self.loop, self.done) = (loop, done)
    }

    func runDeferredWork() {
        let isLine = loop.lineEnd != 0 && loop.shareEnd == loop.lineEnd
        loop.execute { [loop, done] in
            let start = MonotonicClock.now()
            done.resume(returning: [isLine, loop.lineEnd == 0 && loop.shareEnd >= start + EventLoop.share])
        }
    }
}
