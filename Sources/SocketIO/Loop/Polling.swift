/// Whether and how long an event loop polls before it sleeps.
///
/// While a loop polls, an event is handled without waking a thread or a processor core, and a peer on the same machine
/// does not pay for the wake-up. Polling costs processor time.
public enum Polling: Sendable, Hashable {
    /// Polls for up to 50 µs while events come within 20 µs on average, and sleeps at once otherwise. It uses at most
    /// about twice the processor time of sleeping and waking, and less than sleeping if answers come quickly. The loop
    /// tries it after 16 short waits in a row, and less often if it did not help.
    case adaptive
    /// Sleeps at once.
    case never
    /// Polls for this long each time, which uses the whole time of a core while nothing happens. A negative time counts
    /// as zero, a time above one hour as one hour.
    case always(for: Duration)
}

extension EventLoop {
    /// Whether and how long this loop polls before it sleeps. The default is ``Polling/never``. Any thread may change
    /// it.
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

    /// The value of ``pollingTime`` that means ``Polling/adaptive``.
    static let adaptivePolling: Int64 = -1
}

/// Decides from the lengths of past waits whether the loop polls before it sleeps (``Polling/adaptive``).
struct PollingHabit {
    /// How long the loop polls, in nanoseconds.
    static let time: Int64 = 50_000
    /// The longest wait, including the wake-up, that polling can shorten, in nanoseconds.
    static let short: Int64 = 150_000
    /// The longest average wait for which polling pays, in nanoseconds.
    static let worthwhile: Int64 = 20_000
    /// The number of short waits in a row before the loop starts to poll: the first and the largest value.
    static let waitsNeeded = 16...1024

    private var isPolling = false
    /// The number of short waits, or of polls, since `isPolling` last changed.
    private var count = 0
    private var waitsNeeded = PollingHabit.waitsNeeded.lowerBound
    private var average: Int64 = 0

    /// How long to poll now, in nanoseconds; 0 to sleep at once.
    var pollingTime: Int64 { isPolling ? Self.time : 0 }

    /// Records a wait of `time` nanoseconds.
    mutating func waited(_ time: Int64) {
        if isPolling {
            count &+= 1
            average += (min(time, Self.time) - average) / 8
            guard average > Self.worthwhile else { return }
            // If polling paid for a while, it is tried again soon.
            let paid = count > 4 * Self.waitsNeeded.lowerBound
            waitsNeeded = paid ? Self.waitsNeeded.lowerBound : min(2 * waitsNeeded, Self.waitsNeeded.upperBound)
            (isPolling, count) = (false, 0)
        } else {
            count = time <= Self.short ? count + 1 : 0
            guard count >= waitsNeeded else { return }
            // One poll without effect does not end polling. Three do.
            (isPolling, count, average) = (true, 0, Self.worthwhile / 2)
        }
    }
}
