import Primitives
import SocketIO
import TransportAPI

/// A pause of a task on its loop, which a cancellation ends. Lives on its loop.
final class LoopPause {
    private let loop: EventLoop
    private var waiter: UnsafeContinuation<Void, Never>?
    private var timer: UInt64?

    private init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Returns at `deadline`, in nanoseconds of ``MonotonicClock``, or when the task is cancelled. Call this on the loop.
    nonisolated(nonsending) static func until(_ deadline: Int64, on loop: EventLoop) async {
        await LoopBound(LoopPause(on: loop), to: loop).suspend(with: deadline, #isolation) { pause, deadline, waiter in
            pause.waiter = waiter
            pause.timer = loop.schedule(at: deadline) { pause.end() }
        } onCancel: { pause, _ in
            pause.end()
        }
    }

    private func end() {
        if let timer = timer.take() { loop.cancel(timer: timer) }
        waiter.take()?.resume()
    }
}
