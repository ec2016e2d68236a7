/// The clock of the calendar, which can be wrong and can be set.
package enum WallClock {
    /// Returns the seconds since 1970-01-01 00:00:00 UTC.
    package static func unixTime() -> Int64 { Int64(time(nil)) }
}
