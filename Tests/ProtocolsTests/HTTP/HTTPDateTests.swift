import Testing

@testable import Protocols

@Suite("Dates of HTTP")
struct HTTPDateTests {
    @Test(
        "Each form of a date is read, and so are the forms of cookies",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Sun, 06-Nov-1994 08:49:37 GMT", 784_111_777),
            ("06 nov 1994 8:49:37", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 01-Jan-70 00:00:01 GMT", 1), ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000), ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799), ("Mon, 01 Jan 1601 00:00:00 GMT", -11_644_473_600),
            ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648), ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
        ] as [(String, Int64)]
    )
    func reads(text: String, seconds: Int64) {
        #expect(HTTPDate.seconds(text) == seconds)
    }

    @Test("Dates are written as IMF-fixdate, and read back as the same second")
    func writes() {
        #expect(HTTPDate.text(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(-1) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(HTTPDate.text(.max) == "Fri, 31 Dec 9999 23:59:59 GMT")
        #expect(HTTPDate.text(951_782_400) == "Tue, 29 Feb 2000 00:00:00 GMT")
        for seconds in stride(from: 0, to: 253_402_300_799, by: 8_640_007) {
            #expect(HTTPDate.seconds(HTTPDate.text(Int64(seconds))) == Int64(seconds))
        }
    }

    @Test(
        "A text without a whole date is none",
        arguments: [
            "", "0", "-1", "Sun, 06 Nov 1994", "06 Nov 08:49:37", "Sun, 31 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 2023 00:00:00 GMT", "Thu, 29 Feb 1900 00:00:00 GMT", "06 Nov 1994 24:00:00",
            "06 Nov 1994 08:60:00", "06 Nov 1994 08:49:61", "00 Nov 1994 08:49:37", "06 Nov 1600 08:49:37",
            "06 Nov 1994 08:49", "06 Nov 1994 008:49:37", "06 Nov 19940 08:49:37", "06 Nox 1994 08:49:37",
            "06 Nov 1994 08:49:37" + String(repeating: " ", count: 100),
        ]
    )
    func refuses(text: String) {
        #expect(HTTPDate.seconds(text) == nil)
    }

    @Test("Days are counted without a gap, in leap years and at the ends of centuries")
    func everyDay() {
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        var former: Int64?
        for year in [1899, 1900, 1901, 1999, 2000, 2001, 2023, 2024, 2099, 2100, 2101] {
            former = HTTPDate.seconds("31 Dec \(year - 1) 00:00:00")
            for name in names {
                for day in 1...31 {
                    guard let found = HTTPDate.seconds("\(day) \(name) \(year) 00:00:00") else { continue }
                    #expect(found - (former ?? 0) == 86_400)
                    former = found
                }
            }
            #expect(former == HTTPDate.seconds("31 Dec \(year) 00:00:00"))
        }
    }

    @Test("Without a Date header, Retry-After is relative to the time of this machine, if that is known")
    func withoutDate() throws {
        let headers = [HTTPHeader(parsed: "Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT")]
        #expect(headers.retryAfter(at: 784_111_700) == .seconds(77))
        #expect(headers.retryAfter(at: 784_111_800) == .zero)
        #expect(headers.retryAfter(at: .min) != nil && headers.retryAfter(at: .max) == .zero)
        #expect(headers.retryAfter(at: nil) == nil)
        let unreadable = headers + [HTTPHeader(parsed: "Date", "yesterday")]
        #expect(unreadable.retryAfter(at: 784_111_700) == .seconds(77))
        #expect([HTTPHeader(parsed: "Retry-After", "soon")].retryAfter(at: 0) == nil)
    }
}
