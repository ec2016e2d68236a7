import SocketIO
import TransportAPI

// The pings that users ask for. A core reports answers in the order of the pings, and not whose each is; so a ping that is given
// up, or whose task was cancelled, keeps its place among the answers.
extension LinkDriver {
    private static let maximumPings = 16
    /// From what age on a ping gives way to a new one, in nanoseconds. Younger ones don't, so that nobody sends the far side
    /// more pings than it bears.
    static let pingPatience: Int64 = 1_000_000_000

    /// Pings, and tells how long the answer took.
    func ping(_ id: UInt64, _ continuation: UnsafeContinuation<Result<Duration, TransportError>, Never>) {
        do throws(TransportError) { try beginPing(id, continuation) } catch {
            continuation.resume(returning: .failure(error))
        }
    }

    func beginPing(
        _ id: UInt64,
        _ continuation: UnsafeContinuation<Result<Duration, TransportError>, Never>? = nil
    ) throws(TransportError) {
        if phase != .open { throw reason?.endError ?? .notOpen }
        let now = MonotonicClock.now()
        let isFull = waiting.pings.count >= Self.maximumPings
        if isFull, !mayGiveUpPing(now) {
            throw TransportError(.busy, .open, "16 pings wait for their answers already")
        }
        enterCore()
        defer { leaveCore() }
        try core.ping(&context)
        if isFull { giveUpPing() }
        waiting.pings.append(.init(id: id, sentAt: now, continuation: continuation))
    }

    private func mayGiveUpPing(_ now: Int64) -> Bool {
        guard let oldest = waiting.pings.first, context.output.count < limits.writeBuffer else { return false }
        return now - oldest.sentAt >= Self.pingPatience
    }

    private func giveUpPing() {
        waiting.pingsGivenUp += 1
        let error = TransportError(.timedOut, .open, "the ping was given up for a later one: 16 had no answer")
        waiting.pings.removeFirst().continuation?.resume(returning: .failure(error))
    }

    /// The answer has come to the oldest ping that had none.
    func answered() {
        guard waiting.pingsGivenUp == 0 else {
            waiting.pingsGivenUp -= 1
            return
        }
        guard !waiting.pings.isEmpty else { return }
        let ping = waiting.pings.removeFirst()
        ping.continuation?.resume(returning: .success(.nanoseconds(MonotonicClock.now() - ping.sentAt)))
    }

    func cancelPing(_ id: UInt64) {
        guard let index = waiting.pings.firstIndex(where: { $0.id == id }) else { return }
        waiting.pings[index].continuation.take()?.resume(returning: .failure(.cancelled(.open)))
    }
}
