import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Decisions about requests over HTTP")
struct HTTPAdmissionTests {
    private func request(_ headers: [String: String], query: String = "") -> HTTPRequest {
        HTTPRequest(
            method: "POST",
            path: "/p",
            query: query,
            headers: headers.map { HTTPHeader(parsed: $0.key, $0.value) }
        )
    }

    private func refusal(_ body: () throws(HTTPRefusal) -> Void) -> HTTPRefusal? {
        do throws(HTTPRefusal) {
            try body()
            return nil
        } catch {
            return error
        }
    }

    @Test("Origin and Host are checked by the rules of WebSocket")
    func origin() {
        let configuration = WebSocketConfiguration()
        #expect(refusal { () throws(HTTPRefusal) in try request(["Host": "a"]).checkOrigin(configuration) } == nil)
        let same = request(["Host": "a", "Origin": "http://a"])
        #expect(refusal { () throws(HTTPRefusal) in try same.checkOrigin(configuration) } == nil)
        let other = request(["Host": "a", "Origin": "http://b"])
        let refused = refusal { () throws(HTTPRefusal) in try other.checkOrigin(configuration) }
        #expect(refused?.response.status == 403 && refused?.error.detail == 403)
        #expect(refused.map { String(decoding: $0.response.body, as: UTF8.self).contains("'http://b'") } == true)
        #expect(refused?.response.headers.values("content-type").count == 1)
        var local = request(["Host": "rebound.example"])
        local.isPeerLocal = true
        #expect(refusal { () throws(HTTPRefusal) in try local.checkOrigin(configuration) }?.response.status == 403)
        var twice = same
        twice.headers.append(HTTPHeader(parsed: "origin", "http://a"))
        #expect(refusal { () throws(HTTPRefusal) in try twice.checkOrigin(configuration) }?.response.status == 400)
    }

    @Test("The app decides about a request without the items of the session, after the path")
    func decision() throws {
        var configuration = WebSocketConfiguration()
        configuration.allowedPaths = ["/p"]
        configuration.decide = { request in
            switch request.query {
            case "who=ann": .acceptAs(Identity("ann"))
            case "": .accept
            default: .refuse(status: 401, headers: [HTTPHeader(parsed: "WWW-Authenticate", "Basic")])
            }
        }
        let ann = request([:], query: "who=ann&im-open=1")
        #expect(try ann.decide(configuration, query: "who=ann") == Identity("ann"))
        #expect(try ann.decide(configuration, query: "") == nil)
        let refused = refusal { () throws(HTTPRefusal) in _ = try ann.decide(configuration, query: "x") }
        #expect(refused?.response.status == 401 && refused?.response.headers.values("www-authenticate") == ["Basic"])
        var elsewhere = ann
        elsewhere.path = "/q"
        let missing = refusal { () throws(HTTPRefusal) in _ = try elsewhere.decide(configuration, query: "") }
        #expect(missing?.response.status == 404)
    }

    @Test("No text about a request shows its query or its body")
    func secrets() {
        var request = request([:], query: "im-session=topsecret")
        request.body = text("alsosecret")
        let shown = "\(request)" + String(reflecting: request)
        #expect(!shown.contains("topsecret") && !shown.contains("\(text("alsosecret"))"))
    }
}
