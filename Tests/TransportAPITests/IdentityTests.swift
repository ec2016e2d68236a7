import Testing
import TransportAPI

@Suite struct IdentityTests {
    @Test("Identities are equal only if all their bytes are")
    func bytes() {
        let (one, two) = ("caf\u{e9}", "cafe\u{301}")
        #expect(one == two)
        #expect(Identity(one) != Identity(two))
        #expect(Identity(one) == Identity("caf\u{e9}"))
        #expect(Identity("ann", claims: ["role": one]) != Identity("ann", claims: ["role": two]))
        #expect(Identity("ann", claims: [one: "a"]) != Identity("ann", claims: [two: "a"]))
        #expect(Identity("ann", claims: ["role": "a"]) != Identity("ann"))
        #expect(Identity("ann", claims: ["a": "1", "b": "2"]) == Identity("ann", claims: ["b": "2", "a": "1"]))
        #expect(Set([Identity(one), Identity(two), Identity(one)]).count == 2)
    }
}
