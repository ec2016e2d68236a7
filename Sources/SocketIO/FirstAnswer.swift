/// Waits for work outside the loop. The first outcome counts: the work's, the deadline's or the cancellation's. Later ones
/// have no effect.
///
/// - Parameters:
///   - loop: the loop whose timer watches the deadline.
///   - deadline: when to give up, in nanoseconds of ``MonotonicClock``.
///   - late: the result after the deadline.
///   - cancelled: the result after a cancellation of the task.
///   - start: begins the work, and calls its argument with the result, on any thread.
func firstAnswer<Value: Sendable>(
    on loop: EventLoop,
    by deadline: Int64,
    late: Value,
    cancelled: Value,
    _ start: (@escaping @Sendable (Value) -> Void) -> Void
) async -> Value {
    let answer = FirstAnswer<Value>()
    let timer = LoopTimer(on: loop, at: deadline) { answer.give(late) }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            answer.expect(continuation)
            start { answer.give($0) }
        }
    } onCancel: {
        answer.give(cancelled)
    }
}

private final class FirstAnswer<Value: Sendable>: Sendable {
    private enum State {
        case idle, given(Value), done
        case waiting(CheckedContinuation<Value, Never>)
    }

    private let state = Locked<State>(.idle)

    func expect(_ continuation: CheckedContinuation<Value, Never>) {
        let early: Value? = state.withLock { state in
            if case .given(let value) = state {
                state = .done
                return value
            }
            state = .waiting(continuation)
            return nil
        }
        if let early { continuation.resume(returning: early) }
    }

    func give(_ value: Value) {
        let continuation: CheckedContinuation<Value, Never>? = state.withLock { state in
            switch state {
            case .idle:
                state = .given(value)
                return nil
            case .waiting(let continuation):
                state = .done
                return continuation
            case .given, .done:
                return nil
            }
        }
        continuation?.resume(returning: value)
    }
}
