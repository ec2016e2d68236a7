extension EventLoop {
    /// Runs one tick on the calling thread. Only for a loop without a thread (``init(stepping:names:)``).
    package func step() {
        ownership.take()
        tick()
        ownership.giveBack()
    }

    /// When the next ``step()`` has work: `.min` if there is work now, `nil` if only a descriptor or another thread can
    /// add work.
    package var nextStep: Int64? {
        isIdle && !hasMail.load(ordering: .relaxed) ? timers.next : .min
    }
}

/// Looks up names for a loop in place of the system's resolver.
package protocol NameService: AnyObject, Sendable {
    /// Looks up `host` and calls `answer` once.
    func lookUp(
        _ host: String,
        port: UInt16,
        _ answer: @escaping @Sendable (Result<[SocketAddress], ConnectError>) -> Void
    )
}
