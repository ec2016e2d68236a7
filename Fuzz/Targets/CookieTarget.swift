import TransportAPI

@testable import Protocols

/// Sets cookies by lines of arbitrary text, from several hosts, with and without TLS, at various times. After each line, the
/// header for each host is checked.
func fuzzCookies(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let date: Int64? = input.flag() ? 784_111_777 : nil
    let hosts = ["a.example", "b.a.example", "127.0.0.1"]
    var jar = CookieJar()
    var senders: [String: Set<String>] = [:]
    var now = Instant.zero
    while !input.rest.isEmpty {
        let choice = input.choice()
        let host = hosts[Int(choice & 3) % hosts.count]
        let origin = CookieOrigin(host: host, path: choice & 4 == 0 ? "/x/y" : "", isSecure: choice & 8 == 0)
        now = now.advanced(by: .seconds(Int(choice >> 4) * 10))
        let line = String(decoding: input.record(), as: UTF8.self)
        if let cookie = SetCookie(line, date: date) {
            try check(cookie, line)
            jar.keep([cookie], from: origin, at: now)
            senders[host, default: []].insert("\(cookie.name)=\(cookie.value)")
        }
        for host in hosts {
            for isSecure in [true, false] {
                let origin = CookieOrigin(host: host, path: "/x/y/z", isSecure: isSecure)
                guard let header = jar.header(for: origin, at: now) else { continue }
                try check(header.value, of: senders[host] ?? [])
            }
        }
    }
    try checkDate(String(decoding: bytes, as: UTF8.self))
}

private func check(_ cookie: SetCookie, _ line: String) throws {
    let size = cookie.name.utf8.count + cookie.value.utf8.count
    try ensure(!cookie.name.isEmpty && size <= SetCookie.maximumBytes, line)
    try ensure(!cookie.name.utf8.contains(UInt8(ascii: "=")), line)
    try ensure(!(cookie.name + cookie.value).utf8.contains { $0 == UInt8(ascii: ";") || $0 == 13 || $0 == 10 }, line)
    try ensure(cookie.path?.utf8.first ?? UInt8(ascii: "/") == UInt8(ascii: "/"), line)
    // A cookie that is sent back has the same name and value when it is read again.
    let again = SetCookie("\(cookie.name)=\(cookie.value)", date: nil)
    let isPlain = !cookie.name.lowercased().hasPrefix("__")
    try ensure(!isPlain || again?.name == cookie.name && again?.value == cookie.value, line)
}

/// Checks that a header has only cookies that this host has set, within the limits.
private func check(_ header: String, of cookies: Set<String>) throws {
    let limit = CookieJar.maximumBytes + 2 * CookieJar.maximumCount + CookieJar.maximumCount
    try ensure(!header.isEmpty && header.utf8.count <= limit, "a header of \(header.utf8.count) bytes")
    let parts = header.utf8.split(separator: UInt8(ascii: ";")).map {
        String(decoding: HTTPSyntax.trim($0), as: UTF8.self)
    }
    try ensure(parts.count <= CookieJar.maximumCount, "\(parts.count) cookies")
    for part in parts { try ensure(cookies.contains(part), "'\(part)' is of another host") }
}

/// Checks that a date has the same meaning when it is written in the usual form.
private func checkDate(_ text: String) throws {
    guard let seconds = HTTPDate.seconds(text) else { return }
    try ensure((-11_644_473_600...253_402_300_800).contains(seconds), "\(seconds)")
    let day = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    let time = seconds - day * 86_400
    // From days to a date, by counting years and months.
    var (year, left) = (Int64(1970), day)
    func length(_ year: Int64) -> Int64 { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 366 : 365 }
    while left < 0 {
        year -= 1
        left += length(year)
    }
    while left >= length(year) {
        left -= length(year)
        year += 1
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let lengths: [Int64] = [31, length(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    var month = 0
    while left >= lengths[month] {
        left -= lengths[month]
        month += 1
    }
    // The year after a leap second at the end of the last year that is read.
    guard year <= 9999 else { return }
    let written = "\(left + 1) \(months[month]) \(year) \(time / 3600):\(time / 60 % 60):\(time % 60) GMT"
    try ensure(HTTPDate.seconds(written) == seconds, "\(text) is \(seconds), and \(written) is not")
}
