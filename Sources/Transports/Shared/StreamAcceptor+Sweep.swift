import SocketIO
import TransportAPI

// Looking after links that nothing comes from, or that take nothing. One timer for all of them, because each link's own would
// take more memory than the rest of its patience is worth.
extension StreamAcceptor {
    /// Looks at all links again after a quarter of the shorter patience.
    func sweepLater(_ loop: EventLoop) {
        let patience = min(bounds.idleTimeout.wholeNanoseconds, bounds.stallTimeout.wholeNanoseconds)
        sweep = loop.schedule(at: loop.now + max(patience / 4, 10_000_000)) { [self] in
            sweep = nil
            for driver in live.values.filter({ $0.phase == .open }) { driver.endIfOverdue(bounds) }
            if !live.isEmpty { sweepLater(loop) }
        }
    }
}

extension LinkDriver {
    fileprivate func endIfOverdue(_ bounds: ServerLimits) {
        let now = loop.now
        if stuckSince != 0, now - stuckSince >= bounds.stallTimeout.wholeNanoseconds {
            let sentence = "the client has taken nothing of what waits for it in \(bounds.stallTimeout)"
            return end(TransportError(.timedOut, .open, sentence), abort: true)
        }
        guard now - max(lastHeard, started) >= bounds.idleTimeout.wholeNanoseconds else { return }
        let sentence = "nothing has come from the client in \(bounds.idleTimeout)"
        abandon(CloseReason(TransportError(.keepaliveTimeout, .open, sentence)))
    }
}
