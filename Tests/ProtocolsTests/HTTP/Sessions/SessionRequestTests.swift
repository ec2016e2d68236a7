import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Requests for sessions over HTTP")
struct SessionRequestTests {
    private static let token = "AAAAAAAAAAAAAAAAAAAAAA"

    private func read(
        _ method: String,
        _ query: String,
        _ headers: [(String, String)] = [],
        body: [UInt8] = []
    ) throws(HTTPRefusal) -> SessionRequest {
        let headers = headers.map { HTTPHeader(parsed: $0.0, $0.1) }
        var request = HTTPRequest(method: method, path: "/", query: query, headers: headers)
        request.body = body
        return try SessionRequest(request)
    }

    @Test("The three requests are read")
    func requests() throws {
        let token = SessionToken(Self.token)
        #expect(try read("POST", "a=b&im-open=1") == .open(interval: .zero))
        #expect(try read("POST", "im-open=1&im-interval=1500") == .open(interval: .milliseconds(1500)))
        for delivery in SessionRequest.Delivery.allCases {
            let query = "im-session=\(Self.token)&im-receive=\(delivery.rawValue)&im-from=7"
            #expect(try read("GET", query) == .receive(token, delivery, from: 7))
        }
        let send = "im-session=\(Self.token)&im-at=3&im-received=18446744073709551615"
        #expect(try read("POST", send) == .send(token, at: 3, received: .max, isLast: false))
        #expect(try read("POST", send + "&im-end=1") == .send(token, at: 3, received: .max, isLast: true))
    }

    @Test("Last-Event-ID replaces the offset of the query")
    func lastEvent() throws {
        let query = "im-session=\(Self.token)&im-receive=sse&im-from=7"
        let resumed = SessionRequest.receive(SessionToken(Self.token), .events, from: 12)
        #expect(try read("GET", query, [("Last-Event-ID", "12")]) == resumed)
        #expect(try read("GET", "im-session=\(Self.token)&im-receive=sse", [("last-event-id", "12")]) == resumed)
        for wrong in ["", "-1", "+1", "1 ", "a", "99999999999999999999"] {
            let error = #expect(throws: HTTPRefusal.self) { try read("GET", query, [("Last-Event-ID", wrong)]) }
            #expect(error?.response.status == 400)
        }
    }

    @Test("A malformed token is a session that does not exist")
    func token() throws {
        #expect(try read("POST", "im-session=x&im-at=0&im-received=0") == .send(nil, at: 0, received: 0, isLast: false))
    }

    @Test(
        "A client cannot choose its session, and wrong parameters are refused",
        arguments: [
            ("POST", ""), ("POST", "im-open=2"), ("POST", "im-open=1&im-open=1"), ("POST", "im-open=1&im-session=x"),
            ("POST", "im-open=1&im-interval=-1"), ("POST", "im-open=1&im-interval=600001"),
            ("GET", "im-session=x&im-session=y&im-receive=poll&im-from=0"),
            ("GET", "im-session=x&im-receive=x&im-from=0"),
            ("GET", "im-session=x&im-receive=poll"), ("GET", "im-session=x&im-receive=poll&im-from=0x1"),
            ("POST", "im-session=x&im-at=0"), ("POST", "im-session=x&im-received=0"),
            ("POST", "im-session=x&im-at=18446744073709551616&im-received=0"),
            ("POST", "im-session=x&im-at=0&im-received=0&im-end=0"),
            ("GET", Array(repeating: "a", count: 101).joined(separator: "&")),
        ]
    )
    func wrong(method: String, query: String) {
        let error = #expect(throws: HTTPRefusal.self) { try read(method, query) }
        #expect(error?.response.status == 400)
    }

    @Test(
        "Another method is refused with those that are allowed",
        arguments: [
            ("GET", "im-open=1", "POST, OPTIONS"), ("HEAD", "im-session=x&im-receive=sse&im-from=0", "GET, OPTIONS"),
            ("POST", "im-session=x&im-receive=sse&im-from=0", "GET, OPTIONS"),
            ("GET", "im-session=x&im-at=0&im-received=0", "POST, OPTIONS"),
        ]
    )
    func methods(method: String, query: String, allowed: String) {
        let error = #expect(throws: HTTPRefusal.self) { try read(method, query) }
        #expect(error?.response.status == 405 && error?.response.headers.values("Allow") == [allowed])
    }

    @Test("The request that opens a session has no body")
    func body() {
        let error = #expect(throws: HTTPRefusal.self) { try read("POST", "im-open=1", body: [1]) }
        #expect(error?.response.status == 400)
    }
}
