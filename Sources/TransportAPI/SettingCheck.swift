/// Checks the values of settings that were made in code. Those of URLs and files are checked where they are read.
///
/// Each function throws `.invalidConfiguration` with the name of the setting, its value and the allowed ones.
package enum SettingCheck {
    /// Checks a number. `nil` means that there is no limit.
    package static func number(_ name: String, _ value: Int?, _ allowed: ClosedRange<Int>) throws(TransportError) {
        guard let value, !allowed.contains(value) else { return }
        let range =
            allowed.upperBound == .max
            ? "\(allowed.lowerBound) and more" : "\(allowed.lowerBound) to \(allowed.upperBound)"
        throw .configuration(name, "is \(value), allowed are \(range)")
    }

    /// Checks that a duration is longer than zero. `nil` means that there is no limit.
    package static func positive(_ name: String, _ value: Duration?) throws(TransportError) {
        guard let value, value <= .zero else { return }
        throw .configuration(name, "is \(value), and must be longer than zero")
    }

    /// Checks that a duration is zero or longer.
    package static func notNegative(_ name: String, _ value: Duration) throws(TransportError) {
        guard value < .zero else { return }
        throw .configuration(name, "is \(value), and must not be negative")
    }
}

extension SupervisorConfiguration {
    /// Checks all values.
    ///
    /// - Throws: `.invalidConfiguration` for a value with which nothing could be sent or received, or that has no meaning.
    package func check() throws(TransportError) {
        try SettingCheck.positive("connectTimeout", connectTimeout)
        try SettingCheck.notNegative("stableAfter", stableAfter)
        try SettingCheck.number("maximumAttempts", maximumAttempts, 1...Int.max)
        try SettingCheck.positive("maximumElapsed", maximumElapsed)
        try backoff.check()
        if case .fixed(let interval) = keepalive.interval { try SettingCheck.positive("keepalive.interval", interval) }
        try SettingCheck.positive("keepalive.timeout", keepalive.timeout)
        if let adaptive = keepalive.adaptive {
            try SettingCheck.positive("keepalive.adaptive.minimum", adaptive.minimum)
            try SettingCheck.positive("keepalive.adaptive.resolution", adaptive.resolution)
            guard adaptive.maximum >= adaptive.minimum else {
                let problem = "is \(adaptive.maximum), and must not be shorter than the minimum, \(adaptive.minimum)"
                throw .configuration("keepalive.adaptive.maximum", problem)
            }
        }
        try SettingCheck.number("outbox.maximumCount", outbox.maximumCount, 1...Int.max)
        try SettingCheck.number("outbox.maximumBytes", outbox.maximumBytes, 1...Int.max)
        try SettingCheck.positive("outbox.maximumAge", outbox.maximumAge)
        try SettingCheck.number("delivery.window", delivery.window, 1...Int(SessionReceiver.window))
        try SettingCheck.positive("delivery.acknowledgementReminder", delivery.acknowledgementReminder)
        try SettingCheck.number("requests.maximumOpen", requests.maximumOpen, 1...Int.max)
        try SettingCheck.number("requests.maximumHandlers", requests.maximumHandlers, 1...Int.max)
        try SettingCheck.notNegative("requests.acknowledgementDelay", requests.acknowledgementDelay)
        try SettingCheck.number("messageBuffer", messageBuffer, 1...Int.max)
        try SettingCheck.number("messageBufferBytes", messageBufferBytes, 1...Int.max)
    }
}

extension BackoffPolicy {
    fileprivate func check() throws(TransportError) {
        switch self {
        case .immediate: break
        case .fixed(let delay): try SettingCheck.notNegative("backoff delay", delay)
        case .exponential(let initial, let maximum, let multiplier, _):
            try SettingCheck.notNegative("backoff initial", initial)
            guard maximum >= initial else {
                throw .configuration(
                    "backoff maximum",
                    "is \(maximum), and must not be shorter than initial, \(initial)"
                )
            }
            guard multiplier >= 1, multiplier.isFinite else {
                throw .configuration("backoff multiplier", "is \(multiplier), and must be at least 1")
            }
        case .schedule(let delays, _):
            for (index, delay) in delays.enumerated() {
                try SettingCheck.notNegative("backoff delays[\(index)]", delay)
            }
        }
    }
}

extension SessionServer.Configuration {
    /// Checks all values.
    ///
    /// - Throws: `.invalidConfiguration` for a value with which no client could be served.
    package func check() throws(TransportError) {
        try supervisor.check()
        try SettingCheck.number("maximumSessions", maximumSessions, 1...Int.max)
        try SettingCheck.number("maximumUnidentifiedConnections", maximumUnidentifiedConnections, 1...Int.max)
        try SettingCheck.notNegative("sessionLifetime", sessionLifetime)
        try SettingCheck.number("maximumBuffered", maximumBuffered, 1...Int.max)
        try SettingCheck.positive("helloTimeout", helloTimeout)
    }
}
