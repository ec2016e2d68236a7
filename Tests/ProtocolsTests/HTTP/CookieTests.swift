import Testing
import TransportAPI

@testable import Protocols

@Suite("Cookies")
struct CookieTests {
    /// 1994-11-06 08:49:37 UTC.
    static let date: Int64 = 784_111_777

    private static func origin(_ host: String, _ path: String = "/", isSecure: Bool = true) -> CookieOrigin {
        CookieOrigin(host: host, path: path, isSecure: isSecure)
    }

    private func keep(_ lines: String..., in jar: inout CookieJar, from origin: CookieOrigin, at now: Instant = .zero) {
        jar.keep(lines.compactMap { SetCookie($0, date: Self.date) }, from: origin, at: now)
    }

    @Test(
        "Name, value and attributes are read, whatever their case and white space",
        arguments: [
            ("a=b", "a", "b", nil, false, nil), (" a = b ; PATH = /x ;secure; HttpOnly", "a", "b", "/x", true, nil),
            ("a=", "a", "", nil, false, nil), ("a=\"b c\"", "a", "\"b c\"", nil, false, nil),
            ("a=b=c", "a", "b=c", nil, false, nil), ("a=b; Path=x", "a", "b", nil, false, nil),
            ("a=b; Max-Age=60", "a", "b", nil, false, 60), ("a=b; max-age=-5", "a", "b", nil, false, 0),
            ("a=b; Max-Age=x", "a", "b", nil, false, nil), ("a=b;;=;Secure=1", "a", "b", nil, true, nil),
            ("a=b; Expires=Sun, 06 Nov 1994 08:50:37 GMT", "a", "b", nil, false, 60),
            ("a=b; expires=Sun, 06-Nov-1994 08:50:37 GMT; Max-Age=5", "a", "b", nil, false, 5),
            ("a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a", "b", nil, false, -784_111_777),
            ("a=b; Expires=never; Domain=example", "a", "b", nil, false, nil), ("ü=ö", "ü", "ö", nil, false, nil),
            ("__Host-a=b; Secure; Path=/", "__Host-a", "b", "/", true, nil),
        ] as [(String, String, String, String?, Bool, Int?)]
    )
    func reads(line: String, name: String, value: String, path: String?, isSecure: Bool, seconds: Int?) throws {
        let cookie = try #require(SetCookie(line, date: Self.date))
        #expect(cookie.name == name && cookie.value == value && cookie.path == path && cookie.isSecure == isSecure)
        #expect(cookie.lifetime == seconds.map { .seconds($0) })
    }

    @Test(
        "A cookie without a name, with characters that no header has, or beyond the limit is ignored",
        arguments: [
            "", "a", "=b", " = b", ";a=b", "a=b\r\nX: y", "a=\u{7f}", "a=\u{FFFD}", "__Secure-a=b",
            "__host-a=b; Secure", "__Host-a=b; Path=/", "__Host-a=b; Secure; Path=/x",
            "a=" + String(repeating: "b", count: SetCookie.maximumBytes),
        ]
    )
    func refuses(line: String) {
        #expect(SetCookie(line, date: Self.date) == nil)
    }

    @Test("A cookie goes back to its host on any port and path below its own, and to no other host")
    func hosts() {
        var jar = CookieJar()
        keep("a=1; Path=/; Domain=example", in: &jar, from: Self.origin("Chat.Example."))
        #expect(jar.header(for: Self.origin("chat.example", "/x/y"), at: .zero)?.value == "a=1")
        for host in ["example", "b.chat.example", "chat.example.evil", "evilchat.example", "127.0.0.1", ""] {
            #expect(jar.header(for: Self.origin(host), at: .zero) == nil)
        }
        keep("a=2; Path=/", in: &jar, from: Self.origin("other.example"))
        #expect(jar.header(for: Self.origin("chat.example"), at: .zero)?.value == "a=1")
        #expect(jar.header(for: Self.origin("other.example"), at: .zero)?.value == "a=2")
    }

    @Test("The path of a cookie is a folder, and longer paths come first")
    func paths() {
        var jar = CookieJar()
        let origin = Self.origin("a", "/chat/room")
        keep("root=1; Path=/", "folder=2", "room=3; Path=/chat/room", "slash=4; Path=/chat/", in: &jar, from: origin)
        func sent(_ path: String) -> String? { jar.header(for: Self.origin("a", path), at: .zero)?.value }
        #expect(sent("/chat/room") == "room=3; slash=4; folder=2; root=1")
        #expect(sent("/chat/room/1") == "room=3; slash=4; folder=2; root=1")
        #expect(sent("/chat/roomy") == "slash=4; folder=2; root=1")
        #expect(sent("/chat") == "folder=2; root=1")
        #expect(sent("/chatter") == "root=1" && sent("") == "root=1")
        keep("top=5", in: &jar, from: Self.origin("b", "/x"))
        #expect(jar.header(for: Self.origin("b", ""), at: .zero)?.value == "top=5")
    }

    @Test("A Secure cookie goes only over TLS, and a plain server can neither set nor replace it")
    func secure() {
        var jar = CookieJar()
        let (safe, plain) = (Self.origin("a"), Self.origin("a", isSecure: false))
        keep("s=1; Secure", "p=2", in: &jar, from: safe)
        #expect(jar.header(for: safe, at: .zero)?.value == "s=1; p=2")
        #expect(jar.header(for: plain, at: .zero)?.value == "p=2")
        keep("s=3", "s=4; Secure", "s=; Max-Age=0", "new=5; Secure", "p=6", in: &jar, from: plain)
        #expect(jar.header(for: safe, at: .zero)?.value == "s=1; p=6")
    }

    @Test("A cookie ends with its time, and a time that is over deletes it")
    func lifetimes() {
        var jar = CookieJar()
        let origin = Self.origin("a")
        let later = Instant.zero.advanced(by: .seconds(60))
        keep("a=1; Max-Age=60", "b=2; Max-Age=61", "c=3", "d=4; Max-Age=99999999999", in: &jar, from: origin)
        #expect(jar.header(for: origin, at: later.advanced(by: .nanoseconds(-1)))?.value == "a=1; b=2; c=3; d=4")
        #expect(jar.header(for: origin, at: later)?.value == "b=2; c=3; d=4")
        keep("b=; Expires=Sun, 06 Nov 1994 08:49:37 GMT", "c=; Max-Age=0", in: &jar, from: origin, at: later)
        #expect(jar.header(for: origin, at: later)?.value == "d=4")
        jar.removeAll()
        #expect(jar.header(for: origin, at: later) == nil)
    }

    @Test("A new value replaces the old one in its place, and beyond the limits the first cookies are dropped")
    func limits() throws {
        var jar = CookieJar()
        let origin = Self.origin("a")
        for number in 1...25 { keep("c\(number)=v", in: &jar, from: origin) }
        keep("c7=new", in: &jar, from: origin)
        let kept = ["c6=v", "c7=new"] + (8...25).map { "c\($0)=v" }
        #expect(jar.header(for: origin, at: .zero)?.value == kept.joined(separator: "; "))
        for number in 1...3 { keep("big\(number)=" + String(repeating: "x", count: 4000), in: &jar, from: origin) }
        let last = jar.header(for: origin, at: .zero)
        let value = try #require(last).value
        #expect(value.hasPrefix("big2=x") && value.utf8.count < CookieJar.maximumBytes)
    }

    @Test("No value of a cookie, of a header or of a query is printed")
    func secrets() throws {
        var jar = CookieJar()
        keep("a=hunter2; Path=/hunter2", in: &jar, from: Self.origin("a", "/hunter2"))
        let sent = jar.header(for: Self.origin("a", "/hunter2"), at: .zero)
        let header = try #require(sent)
        let cookie = try #require(SetCookie("a=hunter2", date: nil))
        var configuration = WebSocketConfiguration()
        configuration.path = "/p?token=hunter2"
        configuration.headers = [try HTTPHeader("Authorization", "Bearer hunter2")]
        var core = try WebSocketCore(.client, configuration)
        core.cookies = header
        let request = ClientRequest(path: "/p", query: "hunter2", subprotocols: [], headers: configuration.headers)
        for value in [jar, header, cookie, core, request] as [Any] {
            var text = "\(value) \(String(reflecting: value))"
            dump(value, to: &text)
            #expect(!text.contains("hunter2"))
        }
    }
}
