import TransportAPI

/// What the server of one row has taken: the other half of the accounts. Lives on its loop.
final class OutageLedger {
    /// How often each message was taken, by its number.
    private(set) var taken: [Int: Int] = [:]
    private(set) var reordered = 0
    private var highest = -1
    private var origins: OriginFilter
    /// While set, messages are not taken.
    private var isSlow = false
    private var waiter: CheckedContinuation<Void, Never>?

    init() {
        var random = RandomSource.seeded(1)
        origins = OriginFilter(using: &random)
    }

    /// Takes one message; waits while taking is slow.
    func take(_ payload: Payload) async {
        if isSlow { await withCheckedContinuation { waiter = $0 } }
        note(payload)
    }

    /// Takes what a broker has acknowledged, as a supervisor that subscribes does: what comes again is dropped.
    func takeOrigin(_ payload: Payload) {
        guard case .origin(let sender, let sequence, let message)? = try? SessionFrame(payload),
            origins.isNew(sender, sequence, message)
        else { return }
        note(message)
    }

    private func note(_ payload: Payload) {
        guard let number = Int(String(decoding: payload.bytes, as: UTF8.self)) else { return }
        taken[number, default: 0] += 1
        if number < highest { reordered += 1 }
        highest = max(highest, number)
    }

    func beSlow(_ isSlow: Bool) {
        self.isSlow = isSlow
        if !isSlow {
            waiter?.resume()
            waiter = nil
        }
    }
}
