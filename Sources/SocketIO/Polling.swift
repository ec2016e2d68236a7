/// What a loop that has nothing to do does before it sleeps.
///
/// While it polls, what comes neither waits for the system to wake a thread nor for a core to leave its sleep, and who sends need
/// not pay for that: a far side on the same machine sends faster to who is awake. The price is a core's time.
public enum Polling: Sendable, Hashable {
    /// Polls for up to 50 µs while what it waits for comes within 20 µs on average, and sleeps at once otherwise. So it takes at
    /// most about twice the processor time that to be put to sleep and woken takes so often, and less than that where answers come
    /// quickly. Whether it pays is tried after 16 waits that were short, and when it did not, less and less often.
    case adaptive
    /// Sleeps at once.
    case never
    /// Polls for so long each time: up to a core's whole time while nothing happens. Negative counts as zero, more than an
    /// hour as an hour.
    case always(for: Duration)
}

extension EventLoop {
    /// What this loop does before it sleeps; ``Polling/adaptive`` by default. May be changed from any thread.
    public var polling: Polling {
        get {
            switch pollingTime.load(ordering: .relaxed) {
            case Self.adaptivePolling: .adaptive
            case 0: .never
            case let time: .always(for: .nanoseconds(time))
            }
        }
        set {
            switch newValue {
            case .adaptive: pollingTime.store(Self.adaptivePolling, ordering: .relaxed)
            case .never: pollingTime.store(0, ordering: .relaxed)
            case .always(let time):
                let (seconds, attoseconds) = min(max(time, .zero), .seconds(3600)).components
                pollingTime.store(seconds * 1_000_000_000 + attoseconds / 1_000_000_000, ordering: .relaxed)
            }
        }
    }

    /// Stands for ``Polling/adaptive`` among nanoseconds.
    static let adaptivePolling: Int64 = -1
}

/// Learns from how long a loop has waited whether it should poll before it sleeps (``Polling/adaptive``).
struct PollingHabit {
    /// How long it polls, in nanoseconds.
    static let time: Int64 = 50_000
    /// Waits that end so soon, with the time that waking up takes, may be shorter when it polls.
    static let short: Int64 = 150_000
    /// How long what it polls for may take on average.
    static let worthwhile: Int64 = 20_000
    /// After how many short waits it tries, at first and at most.
    static let patience = 16...1024

    private var isPolling = false
    /// Waits that were short, or polls, since this changed last.
    private var count = 0
    private var patience = PollingHabit.patience.lowerBound
    private var average: Int64 = 0

    /// For how long to poll now; 0 for not at all.
    var pollingTime: Int64 { isPolling ? Self.time : 0 }

    /// Takes note of a wait that is over, in nanoseconds.
    mutating func waited(_ time: Int64) {
        if isPolling {
            count &+= 1
            average += (min(time, Self.time) - average) / 8
            guard average > Self.worthwhile else { return }
            // What paid for a while is worth trying again soon.
            let paid = count > 4 * Self.patience.lowerBound
            patience = paid ? Self.patience.lowerBound : min(2 * patience, Self.patience.upperBound)
            (isPolling, count) = (false, 0)
        } else {
            count = time <= Self.short ? count + 1 : 0
            guard count >= patience else { return }
            // Neither does the first poll that is in vain end it, nor do many have to be.
            (isPolling, count, average) = (true, 0, Self.worthwhile / 2)
        }
    }
}
