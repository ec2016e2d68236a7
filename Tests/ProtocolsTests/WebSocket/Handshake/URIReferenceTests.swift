import Testing

@testable import Protocols

@Suite("URI references")
struct URIReferenceTests {
    static func resolve(_ reference: String, _ base: String = "http://a/b/c/d;p?q") throws -> String {
        let base = try #require(URIReference(base))
        let target = try #require(URIReference(reference)).resolved(against: base)
        let authority = target.authority.map { "//\($0)" } ?? ""
        return "\(target.scheme ?? ""):\(authority)\(target.path)" + (target.query.map { "?\($0)" } ?? "")
    }

    // The expected targets have no fragments.
    @Test(
        "The examples of RFC 3986, section 5.4, are resolved as given there",
        arguments: [
            ("g:h", "g:h"), ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"), ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"), ("g#s", "http://a/b/c/g"), ("g?y#s", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y"),
            ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
            ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"),
            ("../../g", "http://a/g"), ("../../../g", "http://a/g"), ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"),
            ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"), ("g/../h", "http://a/b/c/h"),
            ("g;x=1/./y", "http://a/b/c/g;x=1/y"), ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("g?y/../x", "http://a/b/c/g?y/../x"), ("g#s/./x", "http://a/b/c/g"), ("g#s/../x", "http://a/b/c/g"),
            ("http:g", "http:g"),
        ]
    )
    func examples(reference: String, target: String) throws {
        #expect(try Self.resolve(reference) == target)
    }

    @Test("A scheme has no case, an empty base path is the root, and a query may contain a colon")
    func others() throws {
        #expect(try Self.resolve("WSS://B/x") == "wss://B/x")
        #expect(try Self.resolve("g", "ws://a") == "ws://a/g")
        #expect(try Self.resolve("?x=http://y/../z", "ws://a/b") == "ws://a/b?x=http://y/../z")
        #expect(try Self.resolve("/a%2Fb%c3%A4", "ws://a") == "ws://a/a%2Fb%c3%A4")
    }

    @Test(
        "A text that is not a URI reference is rejected",
        arguments: [
            "a b", "a\r\nb", "a\0", "/ü", "a\\b", "<a>", "1a:b", ":a", "a_b:c", "/%", "/%4", "/%zz", "/a%%41", "\"",
            "{x}",
        ]
    )
    func wrong(text: String) {
        #expect(URIReference(text) == nil)
    }
}
