import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Queries of forms")
struct FormQueryTests {
    @Test(
        "A query is decoded item by item",
        arguments: [
            ("", []), ("&&", []), ("a=b&c=d", [("a", "b"), ("c", "d")]), ("a", [("a", "")]), ("=b", [("", "b")]),
            ("a=b=c", [("a", "b=c")]), ("a+b=%2B+%26", [("a b", "+ &")]), ("%C3%A9=%c3%a9", [("é", "é")]),
            ("a=%", [("a", "%")]), ("a=%4", [("a", "%4")]), ("a=%zz%41", [("a", "%zzA")]),
            ("a=%ff", [("a", "\u{fffd}")]),
            ("a=b&a=c", [("a", "b"), ("a", "c")]), ("a=%00%0D", [("a", "\0\r")]), ("a=é", [("a", "é")]),
        ] as [(String, [(String, String)])]
    )
    func parsed(query: String, items: [(String, String)]) throws {
        let read = try #require(FormQuery(query))
        #expect(read.items == items.map { FormQuery.Item(name: $0.0, value: $0.1) })
        #expect(FormQuery(read.text) == read)
    }

    @Test("What is written is read again")
    func written() {
        var query = FormQuery()
        query.append("im-session", "aZ09-_")
        query.append("im-at", 17 as UInt64)
        query.append("a b&", "=%é\n*.")
        #expect(query.text == "im-session=aZ09-_&im-at=17&a+b%26=%3D%25%C3%A9%0A*.")
        #expect(FormQuery(query.text) == query && FormQuery(text(query.text)) == query)
    }

    @Test("An item is found by its name, unless there is another one")
    func found() throws {
        let query = try #require(FormQuery("a=1&b=2&b=3&c="))
        #expect(query["a"] == "1" && query["b"] == nil && query["c"] == "" && query["d"] == nil)
    }

    @Test(
        "A number has decimal digits only",
        arguments: [
            ("0", 0), ("17", 17), ("18446744073709551615", UInt64.max), ("18446744073709551616", nil), ("", nil),
            ("%2B5", nil), ("-5", nil), ("0x5", nil), ("5 ", nil), ("٥", nil),
        ] as [(String, UInt64?)]
    )
    func numbers(value: String, number: UInt64?) throws {
        #expect(try #require(FormQuery("a=\(value)")).number("a") == number)
        #expect(try #require(FormQuery("a=\(value)&a=1")).number("a") == nil)
    }

    @Test("Too many items are refused")
    func limit() {
        let items = Array(repeating: "a=b", count: FormQuery.maximumItems)
        #expect(FormQuery(items.joined(separator: "&"))?.items.count == FormQuery.maximumItems)
        #expect(FormQuery((items + ["a"]).joined(separator: "&")) == nil)
    }

    @Test(
        "Items with a prefix are removed, and the others keep their bytes",
        arguments: [
            ("", ""), ("im-open=1", ""), ("a=%zz&im-open=1&b=+é", "a=%zz&b=+é"), ("%69m-x&a", "a"), ("im", "im"),
            ("a=im-x", "a=im-x"), ("im-a&im-b&c", "c"), ("c&im-a", "c"), ("IM-x", "IM-x"), ("a&&b", "a&&b"),
        ]
    )
    func removing(query: String, rest: String) {
        #expect(FormQuery.removing(prefix: "im-", from: query) == rest)
        #expect(FormQuery.contains(prefix: "im-", query) == (query != rest))
        #expect(!FormQuery.contains(prefix: "im-", rest))
    }
}
