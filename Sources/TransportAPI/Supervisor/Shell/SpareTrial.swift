/// A connection beside the user's that is left idle for a while, to see whether the path still knows it then. Lives on the
/// shell's runtime.
final class SpareTrial {
    private var task: Task<Void, Never>?

    init(
        _ shell: SupervisorShell,
        _ number: Int,
        _ endpoint: Endpoint,
        idle: Duration,
        timeout: Duration,
        isSession: Bool
    ) {
        let confined = RuntimeConfined(shell, to: shell.runtime)
        task = Self.start(confined, number, endpoint, idle, timeout, isSession)
    }

    func cancel() {
        task?.cancel()
    }

    private static func start(
        _ shell: RuntimeConfined<SupervisorShell>,
        _ number: Int,
        _ endpoint: Endpoint,
        _ idle: Duration,
        _ timeout: Duration,
        _ isSession: Bool
    ) -> Task<Void, Never> {
        Task(executorPreference: shell.runtime.taskExecutor) {
            let (factory, preparation) = (shell.value.factory, shell.value.preparation)
            var outcome = TrialOutcome.unclear
            do throws(TransportError) {
                let prepared = try await LinkAttempt.prepare(endpoint, preparation, false)
                let link = try await factory(shell.value.spareEndpoint(prepared)).connect(timeout: timeout)
                outcome = await outlives(link, shell.runtime, idle, timeout, isSession)
                await link.close()
            } catch {}
            guard !Task.isCancelled else { return }
            shell.value.trials[number] = nil
            shell.value.handle(.trial(number, outcome))
        }
    }

    /// How long a new connection may still be busy with itself.
    private static let settling = Duration.milliseconds(500)

    /// Whether the link answers after it has been idle.
    private static func outlives(
        _ link: any Link,
        _ runtime: any SupervisorRuntime,
        _ idle: Duration,
        _ timeout: Duration,
        _ isSession: Bool
    ) async -> TrialOutcome {
        // Says to a server of sessions that none will begin here.
        if isSession { _ = await link.send(SessionFrame.spare.payload) }
        // What belongs to the handshake may still be on its way, and come twice over datagrams.
        await pause(settling, on: runtime)
        let (received, began) = (await link.statistics().bytesReceived, runtime.clock)
        if await first(of: { await link.closed() }, or: idle, on: runtime) != nil {
            // Who hangs up after a while has a limit of its own, which is as good as a NAT's.
            return .died(max(began.duration(to: runtime.clock), .milliseconds(1)))
        }
        // A link that was not idle has shown nothing.
        guard !Task.isCancelled, await link.statistics().bytesReceived == received else { return .unclear }
        let answer = await first(
            of: { () -> Bool in
                do throws(TransportError) {
                    _ = try await link.ping()
                    return true
                } catch {
                    return false
                }
            },
            or: timeout,
            on: runtime
        )
        return answer == true ? .survived : .died(idle)
    }

    /// What `work` gives, or `nil` if the time is over first.
    private static func first<Value: Sendable>(
        of work: @escaping @Sendable () async -> Value,
        or time: Duration,
        on runtime: any SupervisorRuntime
    ) async -> Value? {
        await withTaskGroup(of: Value?.self) { group in
            group.addTask { await work() }
            group.addTask {
                await pause(time, on: runtime)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
    }
}

/// A task that waits for a time. Lives on its runtime.
private final class Pause {
    var continuation: UnsafeContinuation<Void, Never>?
    var timer: UInt64?

    func end() {
        continuation.take()?.resume()
    }
}

/// Waits for a time, or until the task is cancelled.
private func pause(_ duration: Duration, on runtime: any SupervisorRuntime) async {
    let pause = RuntimeConfined(Pause(), to: runtime)
    await withTaskExecutorPreference(runtime.taskExecutor) {
        await suspending(on: pause, as: runtime, nil) {
            (held: Pause, continuation: UnsafeContinuation<Void, Never>) in
            held.continuation = continuation
            held.timer = runtime.schedule(at: runtime.clock.advanced(by: duration)) { held.end() }
        } onCancel: { held, runtime in
            if let timer = held.timer { runtime.cancel(timer: timer) }
            held.end()
        } elsewhere: {
        }
    }
}
