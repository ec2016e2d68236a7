extension EventLoop {
    /// Runs one iteration on the calling thread. For a loop without a thread only (``init(stepping:names:)``).
    package func step() {
        ownership.take()
        if hasEndlessTicks {
            runJobs()
            if !scheduler.endTickEndlessly() { isInEndlessTick = true }
        }
        tick()
        ownership.giveBack()
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
