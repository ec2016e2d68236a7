import SocketIO
import TransportAPI

// Looking after links that nothing comes from, or that take nothing. One timer for all of them, because each link's own would
// take more memory than the rest of its patience is worth.
extension StreamAcceptor {
    /// Looks at all links again after a quarter of the shorter patience.
    func sweepLater(_ loop: EventLoop) {
        isSweeping = true
        let patience = min(bounds.idleTimeout.wholeNanoseconds, bounds.stallTimeout.wholeNanoseconds)
        _ = loop.schedule(at: loop.now + max(patience / 4, 10_000_000)) { [self] in
            loop.runLater(Sweep(self, loop))
        }
    }

    fileprivate func swept(_ loop: EventLoop) {
        isSweeping = false
        if !live.isEmpty { sweepLater(loop) }
    }
}

/// One look at all links of an acceptor, in shares of the loop's turns: those of a crowd that went silent together are overdue
/// together.
private final class Sweep: ShareHandler {
    /// After how many links the clock is looked at, if none of them was overdue.
    private static let stretch = 64

    private let acceptor: StreamAcceptor
    private let loop: EventLoop
    /// Those that are still to be looked at.
    private var left: [UInt64]

    init(_ acceptor: StreamAcceptor, _ loop: EventLoop) {
        (self.acceptor, self.loop) = (acceptor, loop)
        left = Array(acceptor.live.keys)
    }

    func shareBegins() {
        let end = loop.shareEnd
        while let number = left.popLast() {
            let wasOverdue = acceptor.live[number]?.endIfOverdue(acceptor.bounds) ?? false
            guard wasOverdue || left.count % Self.stretch == 0, MonotonicClock.now() >= end else { continue }
            return loop.runLater(self)
        }
        acceptor.swept(loop)
    }
}

extension LinkDriver {
    /// Ends an open link that nothing has come from for too long, or that takes nothing; whether it did.
    fileprivate func endIfOverdue(_ bounds: ServerLimits) -> Bool {
        guard phase == .open else { return false }
        let now = loop.now
        if stuckSince != 0, now - stuckSince >= bounds.stallTimeout.wholeNanoseconds {
            let sentence = "the client has taken nothing of what waits for it in \(bounds.stallTimeout)"
            end(TransportError(.timedOut, .open, sentence), abort: true)
            return true
        }
        guard now - max(lastHeard, started) >= bounds.idleTimeout.wholeNanoseconds else { return false }
        let sentence = "nothing has come from the client in \(bounds.idleTimeout)"
        abandon(CloseReason(TransportError(.keepaliveTimeout, .open, sentence)))
        return true
    }
}
