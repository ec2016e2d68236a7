extension EventLoop {
    /// Runs one iteration on the calling thread. For a loop without a thread only (``init(stepping:names:)``).
    package func step() {
        ownership.take()
        if hasEndlessTicks { runEndlessTick() }
        turn()
        ownership.giveBack()
    }

    /// Calls handlers until none is left, or so many were called that the tick would not end.
    private func runEndlessTick() {
        runJobs()
        var left = 100_000
        while left > 0, let handler = tickEndHandlers.popFirst() {
            handler.tickEnded()
            left -= 1
        }
        if left == 0 { isInEndlessTick = true }
    }

    /// When the next ``step()`` has something to do: `.min` if there is work now, `nil` if nothing but a descriptor or another
    /// thread can bring any.
    package var nextStep: Int64? {
        isIdle && !hasMail.load(ordering: .relaxed) ? timers.next : .min
    }
}

/// Looks up names for a loop in place of the system's resolver.
package protocol NameService: AnyObject, Sendable {
    /// Looks `host` up, and calls `answer` once.
    func lookUp(
        _ host: String,
        port: UInt16,
        _ answer: @escaping @Sendable (Result<[SocketAddress], ConnectError>) -> Void
    )
}
