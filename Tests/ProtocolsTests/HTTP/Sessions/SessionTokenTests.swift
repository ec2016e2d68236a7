import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Tokens of sessions")
struct SessionTokenTests {
    @Test("The text of a token is read as the same token")
    func text() throws {
        var random = RandomSource.seeded(7)
        var seen: Set<SessionToken> = []
        for _ in 0..<200 {
            let token = SessionToken(&random)
            #expect(token.text.utf8.count == SessionToken.length && SessionToken(token.text) == token)
            #expect(token.text.utf8.allSatisfy { $0 >= 0x30 && $0 < 0x7f || $0 == UInt8(ascii: "-") })
            #expect(seen.insert(token).inserted)
        }
    }

    @Test(
        "Any other text is no token",
        arguments: [
            "", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAAB",
            "+AAAAAAAAAAAAAAAAAAAAA", "/AAAAAAAAAAAAAAAAAAAAA", " AAAAAAAAAAAAAAAAAAAAA", "ÄAAAAAAAAAAAAAAAAAAAA",
        ]
    )
    func others(text: String) {
        #expect(SessionToken("AAAAAAAAAAAAAAAAAAAAAA") != nil)
        #expect(SessionToken(text) == nil)
    }

    @Test("The printed form does not show the token")
    func printed() {
        var random = RandomSource.seeded(7)
        let token = SessionToken(&random)
        var dumped = ""
        dump(token, to: &dumped)
        for text in ["\(token)", String(reflecting: token), dumped] { #expect(text.contains("hidden")) }
    }
}
