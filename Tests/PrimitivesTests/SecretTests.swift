import Primitives
import Testing

@Suite("Secrets")
struct SecretTests {
    private struct Login: Hashable, Sendable {
        var user = "ann"
        @Secret var password: String
        @Secret var key: [UInt8]? = [115, 51]
    }

    @Test("A secret is read, changed and compared as any other property")
    func value() {
        var login = Login(password: "s3cret")
        #expect(login.password == "s3cret" && login.key == [115, 51])
        let copy = login
        login.password = "other"
        #expect(login != copy && login.password == "other" && copy.password == "s3cret")
        #expect(Set([login, copy, copy]).count == 2)
    }

    @Test("Neither printing nor dumping shows a secret, also inside other values")
    func hidden() {
        let login = Login(password: "s3cret")
        for value in [login, Optional(login) as Any, [login], ["key": login], (1, login)] as [Any] {
            var text = "\(value) \(String(reflecting: value))"
            dump(value, to: &text)
            #expect(text.contains("ann") && text.contains("(hidden)"))
            #expect(!text.contains("s3cret") && !text.contains("115"))
        }
    }
}
