import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("The client of a session over HTTP")
struct SessionBindingTests {
    private func request(_ headers: [(String, String)], _ method: String = "POST") -> HTTPRequest {
        HTTPRequest(method: method, path: "/", headers: headers.map { HTTPHeader(parsed: $0.0, $0.1) })
    }

    @Test("Requests with the same Origin and Authorization are admitted")
    func same() {
        for headers in [[], [("Origin", "https://a")], [("Authorization", "Bearer x")]] {
            #expect(SessionBinding(request(headers)).admits(request(headers + [("X-Other", "1")])))
        }
    }

    @Test("Requests with another Origin or Authorization are refused")
    func others() {
        let binding = SessionBinding(request([("Origin", "https://a"), ("Authorization", "Bearer x")]))
        let wrong: [[(String, String)]] = [
            [], [("Origin", "https://a")], [("Origin", "https://b"), ("Authorization", "Bearer x")],
            [("Origin", "https://a"), ("Authorization", "Bearer y")],
            [("Origin", "https://a"), ("Authorization", "bearer x")],
            [("Origin", "https://a"), ("Authorization", "Bearer x"), ("Authorization", "Bearer x")],
            [("Authorization", "Bearer x")],
        ]
        for headers in wrong { #expect(!binding.admits(request(headers))) }
        #expect(!SessionBinding(request([])).admits(request([("Origin", "https://a")])))
        #expect(!SessionBinding(request([])).admits(request([("Authorization", "Bearer x")], "GET")))
    }

    @Test("A browser's GET to the server of its page has no Origin, and is admitted")
    func sameOrigin() {
        let binding = SessionBinding(request([("Origin", "https://a")]))
        #expect(binding.admits(request([], "GET")) && !binding.admits(request([])))
        #expect(!binding.admits(request([("Origin", "https://b")], "GET")))
    }

    @Test("The printed form does not show the credentials")
    func printed() {
        let binding = SessionBinding(request([("Authorization", "Bearer hunter2")]))
        var dumped = ""
        dump(binding, to: &dumped)
        for text in ["\(binding)", String(reflecting: binding), dumped] { #expect(!text.contains("hunter2")) }
    }
}
