/// The dates of HTTP: IMF-fixdate, and the obsolete forms of RFC 850 and asctime (RFC 9110, section 5.6.7).
///
/// One parser reads all three, and the further forms that servers write into cookies (RFC 6265, section 5.1.1): it
/// searches for a time, a day, a month and a year, in this order of precedence, and ignores everything else. All dates are
/// in UTC, whatever zone they name.
package enum HTTPDate {
    /// The longest text that is searched, in bytes.
    private static let maximumLength = 100
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Returns the seconds from 1970-01-01 00:00:00 UTC to a date. Returns `nil` if `text` has no date of the years 1601
    /// to 9999.
    package static func seconds(_ text: String) -> Int64? {
        guard text.utf8.count <= maximumLength else { return nil }
        var time: (hour: Int, minute: Int, second: Int)?
        var day: Int?
        var month: Int?
        var year: Int?
        for token in text.utf8.split(whereSeparator: isDelimiter) {
            if time == nil, let found = self.time(token) {
                time = found
            } else if day == nil, let found = number(token, 1...2) {
                day = found
            } else if month == nil, let found = months.firstIndex(of: HTTPSyntax.lowercased(token.prefix(3))) {
                month = found + 1
            } else if year == nil, let found = number(token, 2...4) {
                year = found
            }
        }
        guard let time, let day, let month, var year else { return nil }
        switch year {
        case 70...99: year += 1900
        case 0...69: year += 2000
        default: break
        }
        // 60 is a leap second.
        guard year >= 1601, time.hour <= 23, time.minute <= 59, time.second <= 60,
            (1...days(in: month, of: year)).contains(day)
        else { return nil }
        let minutes = (daysSince1970(year, month, day) * 24 + time.hour) * 60 + time.minute
        return Int64(minutes) * 60 + Int64(time.second)
    }

    /// Returns a time as IMF-fixdate, such as "Sun, 06 Nov 1994 08:49:37 GMT".
    ///
    /// - Parameter seconds: the seconds since 1970-01-01 00:00:00 UTC. Times outside the years 1970 to 9999 become the first
    ///   or the last second of these years.
    package static func text(_ seconds: Int64) -> String {
        let seconds = Int(Swift.min(Swift.max(seconds, 0), 253_402_300_799))
        let days = seconds / 86_400
        // The inverse of daysSince1970: eras of 400 years, and years that begin in March.
        let shifted = days + 719_468
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let march = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * march + 2) / 5 + 1
        let month = march < 10 ? march + 3 : march - 9
        let year = shifted / 146_097 * 400 + yearOfEra + (month <= 2 ? 1 : 0)
        let name = months[month - 1].prefix(1).uppercased() + months[month - 1].dropFirst()
        let time = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map(twoDigits).joined(separator: ":")
        return "\(weekdays[days % 7]), \(twoDigits(day)) \(name) \(year) \(time) GMT"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x20...0x2f, 0x3b...0x40, 0x5b...0x60, 0x7b...0x7e: true
        default: false
        }
    }

    /// Reads the digits in front of a token, if there are as many as allowed.
    private static func number(_ token: Substring.UTF8View, _ counts: ClosedRange<Int>) -> Int? {
        let digits = token.prefix { $0 >= 0x30 && $0 <= 0x39 }
        guard counts.contains(digits.count) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    private static func time(_ token: Substring.UTF8View) -> (hour: Int, minute: Int, second: Int)? {
        let parts = token.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].allSatisfy({ $0 <= 0x39 }), parts[1].allSatisfy({ $0 <= 0x39 }),
            let hour = number(parts[0], 1...2), let minute = number(parts[1], 1...2),
            let second = number(parts[2], 1...2)
        else { return nil }
        return (hour, minute, second)
    }

    private static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Counts the days in the Gregorian calendar, with years that begin in March, so that a leap day is the last one.
    private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = month > 2 ? year : year - 1
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    }
}

extension [HTTPHeader] {
    /// The time at which the peer wrote these headers (RFC 9110, section 6.6.1), in seconds since 1970. Without a Date
    /// header it is `unixTime`, the time of this machine, whose clock can differ from the peer's.
    func date(otherwise unixTime: Int64?) -> Int64? {
        values("Date").first.flatMap(HTTPDate.seconds) ?? unixTime
    }

    /// How long Retry-After requests to wait (RFC 9110, section 10.2.3): a number of seconds, or a date. A date in the past
    /// means now. Returns `nil` without the header, if it cannot be read, and for a date without a time to compare with.
    ///
    /// - Parameter unixTime: the time of this machine in seconds since 1970, for answers without a Date header.
    package func retryAfter(at unixTime: Int64?) -> Duration? {
        guard let value = values("Retry-After").first else { return nil }
        if let seconds = HTTPSyntax.seconds(value) { return seconds }
        guard let now = date(otherwise: unixTime), let date = HTTPDate.seconds(value) else { return nil }
        return .seconds(Swift.max(date.subtractingReportingOverflow(now).partialValue, 0))
    }
}
