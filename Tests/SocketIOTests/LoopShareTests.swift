import Testing

@testable import SocketIO

@Suite("The shares of an event loop's turn")
struct LoopShareTests {
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
            loop.execute { loop.runLater(LineEnd(loop, continuation)) }
        }
        #expect(isRight == [true, true])
    }
}

/// Asks when it should stop: in the line, and then outside of it.
private final class LineEnd: ShareHandler {
    private let loop: EventLoop
    private let done: CheckedContinuation<[Bool], Never>

    init(_ loop: EventLoop, _ done: CheckedContinuation<[Bool], Never>) {
        (self.loop, self.done) = (loop, done)
    }

    func shareBegins() {
        let isLine = loop.lineEnd != 0 && loop.shareEnd == loop.lineEnd
        loop.execute { [loop, done] in
            let start = MonotonicClock.now()
            done.resume(returning: [isLine, loop.lineEnd == 0 && loop.shareEnd >= start + EventLoop.share])
        }
    }
}
