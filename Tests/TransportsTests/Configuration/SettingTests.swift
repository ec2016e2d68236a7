import Testing
import TransportAPI

@testable import Transports

@Suite("Settings that an app declares")
struct SettingTests {
    private struct Login: Sendable, Equatable {
        var timeout = Duration.seconds(10)
        var names: [String] = ["guest"]
        var isStrict = false
        var retries: Int?
    }

    private static let list = SettingList(
        Login(),
        [
            Setting("login-timeout", .duration(), \.timeout, "how long the login may take"),
            Setting("name", each: .text(1...8), \.names, "a name; may be repeated"),
            Setting("strict", .flag, \.isStrict, "whether names are compared with their case"),
            Setting("retries", SettingFormat.integer(0...5).orAbsent("no limit"), \.retries, "further attempts"),
        ]
    )

    private func read(_ query: String, ignoring others: [SettingRow] = []) throws -> Login {
        try Self.list.read(Endpoint("guarded://host?\(query)"), ignoring: others)
    }

    private func refusal(_ query: String) -> String? {
        #expect(throws: TransportError.self) { try read(query) }?.reason
    }

    @Test("A setting may be repeated as often as its limit allows")
    func repetition() throws {
        let list = SettingList(Login(), [Setting("name", each: .text(1...8), atMost: 2, \.names, "a name")])
        #expect(try list.read(Endpoint("guarded://host?name=a&name=b")).names == ["a", "b"])
        let error = #expect(throws: TransportError.self) {
            try list.read(Endpoint("guarded://host?name=a&name=b&name=c"))
        }
        #expect(error?.reason == "name occurs 3 times; allowed are at most 2")
    }

    @Test("A format whose values have no text has a described default")
    func texts() {
        let list = SettingFormat.commaSeparated(.integer(0...5)).withDefault("all")
        #expect(list.text([]) == nil && list.shown([]) == "all" && list.text([1, 2]) == "1,2")
        let even = SettingFormat.integer(0...9).map({ $0 % 2 == 0 ? $0 / 2 : nil }, back: { $0 < 5 ? $0 * 2 : nil })
        #expect(even.text(2) == "4" && even.text(7) == nil)
    }

    @Test("A URL without options leaves all defaults")
    func defaults() throws {
        #expect(try read("") == Login())
    }

    @Test("Each option sets its property, and repeated ones replace the default")
    func values() throws {
        let expected = Login(timeout: .milliseconds(250), names: ["ann", "bob"], isStrict: true, retries: 3)
        #expect(try read("login-timeout=250ms&name=ann&strict=on&name=bob&retries=3") == expected)
    }

    @Test("A flag without a value is on, and a number without a value is refused")
    func bare() throws {
        #expect(try read("strict").isStrict && read("strict=").isStrict)
        #expect(refusal("retries") == #"retries is ""; allowed is 0 to 5"#)
    }

    @Test(
        "A wrong option is refused with its name and what is allowed",
        arguments: [
            ("retries=6", #"retries is "6"; allowed is 0 to 5"#),
            (
                "login-timeout=5",
                #"login-timeout is "5"; its unit is missing ("5s" are seconds); allowed is "1ms" to "1000h""#
            ),
            ("retries=1&retries=2", "retries occurs 2 times; once is allowed"),
            ("name=ann&name=", #"name is ""; allowed is a text of 1 to 8 bytes"#),
            (
                "retrys=1",
                #"retrys is not known; did you mean "retries"? allowed are login-timeout, name, retries, strict"#
            ),
        ]
    )
    func wrong(query: String, sentence: String) {
        #expect(refusal(query) == sentence)
    }

    @Test("Settings of the other side are ignored, and suggested for a misspelt name, but not offered")
    func others() throws {
        let others = [SettingRow("max-guests", allowed: "1 to 9", standard: "3", "guests at a time")]
        #expect(try read("max-guests=oops", ignoring: others) == Login())
        let error = #expect(throws: TransportError.self) { try read("max-guest=3", ignoring: others) }
        #expect(
            error?.reason
                == #"max-guest is not known; did you mean "max-guests"? allowed are login-timeout, name, retries, strict"#
        )
    }

    @Test("The rows show the defaults of the target")
    func rows() {
        let rows = Self.list.rows.map { "\($0.name) | \($0.allowed) | \($0.standard) | \($0.meaning)" }
        #expect(
            rows == [
                #"login-timeout | "1ms" to "1000h" | "10s" | how long the login may take"#,
                #"name | a text of 1 to 8 bytes | "guest" | a name; may be repeated"#,
                #"strict | true, false, "on" or "off" | false | whether names are compared with their case"#,
                "retries | 0 to 5 | no limit | further attempts",
            ]
        )
    }

    @Test("An app's own transport has its own settings beside those of every transport over TCP")
    func descriptor() throws {
        let transport = TransportDescriptor.stream("guarded", defaultPort: 9600, settings: Self.list) {
            (_, _, _) throws(TransportError) in
            try FramedTCPCore(TCPConfiguration())
        }
        let shared = TransportDescriptor.stream("plain", defaultPort: 9600, settings: SettingList(())) {
            (_, _, _) throws(TransportError) in
            try FramedTCPCore(TCPConfiguration())
        }
        #expect(transport.clientSettings == Self.list.rows + shared.clientSettings)
        #expect(transport.serverSettings == Self.list.rows + shared.serverSettings)
        let registry = TransportRegistry([transport])
        for good in ["retries=2", "retries=2&inbox=7&proxy=http://p&max-connections=3"] {
            _ = try registry.transport(for: Endpoint("guarded://host?\(good)"))
        }
        for wrong in ["retries=9", "inbox=0", "retires=1"] {
            #expect(throws: TransportError.self) {
                try registry.transport(for: Endpoint("guarded://host?\(wrong)"))
            }
        }
    }

    @Test(
        "No transport declares a name twice on one side",
        arguments: TransportRegistry.standard.transports.map(\.name)
    )
    func unique(scheme: String) throws {
        let transport = try TransportRegistry.standard.transport(named: scheme)
        for rows in [transport.clientSettings, transport.serverSettings] {
            #expect(Set(rows.map(\.name)).count == rows.count)
            #expect(rows.allSatisfy { !$0.allowed.isEmpty && !$0.standard.isEmpty && !$0.meaning.isEmpty })
        }
    }
}
