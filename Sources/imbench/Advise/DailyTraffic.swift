import CommandSupport

/// The messages of one client in a day, in bursts that are spread evenly over it.
struct DailyTraffic: Sendable, Equatable {
    /// Bursts a day, at least one.
    var bursts: Int
    /// Messages of one burst, at least one.
    var messages: Int
    /// Messages a second during a burst.
    var rate: Double

    var messagesPerDay: Int { bursts * messages }

    /// The time from the first message of a burst until the last one.
    var secondsPerBurst: Double { Double(messages - 1) / rate }

    var sentence: String {
        messages == 1
            ? "\(messagesPerDay) messages a day, one at a time"
            : "\(messagesPerDay) messages a day, in \(bursts) bursts with \(fixed(rate, 2, trimmed: true))/s"
    }
}
