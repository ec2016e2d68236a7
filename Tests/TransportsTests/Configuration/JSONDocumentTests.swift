import Testing
import TransportAPI

@testable import Transports

@Suite("The text of configuration files")
struct JSONDocumentTests {
    @Test(
        "The error of invalid JSON has line and column",
        arguments: [
            ("", "1:1: the text is empty; an object in braces is expected"),
            (" \n", "2:1: the text is empty; an object in braces is expected"),
            (" {\n", "2:1: the text ends before its last value does"),
            ("{\n  \"a\": 1,\n}", "3:1: a comma before a closing bracket is not allowed"),
            ("[1,]", "1:4: a comma before a closing bracket is not allowed"),
            ("{\r\n// x\r\n}", "2:1: JSON has no comments"),
            ("{\r\r'a': 1}", "3:1: JSON has double quotes only"),
            ("{a: 1}", "1:2: 'a' is not allowed here in JSON"),
            ("{true: 1}", "1:2: only a name in double quotes is allowed here"),
            ("{\"ä\" 1}", "1:6: '1' is not allowed here in JSON"),
            ("{\"a\": 01}", "1:8: the number does not follow the grammar of JSON"),
            ("[1e999]", "1:2: the number is too large"),
            ("[NaN]", "1:2: 'N' is not allowed here in JSON"),
            ("{} {}", "1:4: there is more text after the outermost value"),
            ("[\"a\tb\"]", "1:4: A string holds a control character that is not escaped."),
            ("[\"\\x\"]", "1:3: A string holds an escape that JSON does not know."),
            ("[\"\\ud800\"]", "1:9: A string holds half of a surrogate pair."),
            ("\u{FEFF}{}", "1:1: a byte order mark before the value is not allowed (RFC 8259, section 8.1)"),
        ]
    )
    func syntax(text: String, expected: String) {
        #expect(refusal(text) == "config.json:\(expected)")
    }

    @Test("A repeated name is refused with both lines, also inside lists")
    func repeated() {
        #expect(
            refusal(with: "\"keepalive\": {\"timeout\": \"1s\",\n\n\"timeout\": \"2s\"}")
                == #"config.json:4: "keepalive.timeout" is in line 2 already; once is allowed"#
        )
        #expect(
            refusal("[{\"a\": 1,\n\"\\u0061\": 2}]")
                == #"config.json:2: "[0].a" is in line 1 already; once is allowed"#
        )
    }

    @Test(
        "Invalid UTF-8 is refused",
        arguments: [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80]]
    )
    func encoding(bytes: [UInt8]) {
        let text = Array("[\n\"é".utf8) + bytes + Array("\"]".utf8)
        let error = #expect(throws: TransportError.self) { try TransportConfiguration(json: text, label: "x") }
        #expect(error?.reason == "x:2:3: The text is not valid UTF-8.")
    }

    @Test("Names and values know their positions")
    func places() throws {
        let document = try JSONDocument("{\r\n \"ä\": [true],\n\"b\": 2}".utf8, label: "x")
        guard case .object(let members) = document.root.kind else {
            Issue.record("the value is not an object")
            return
        }
        #expect(
            members.map { document.place(of: $0.offset) } == [.init(line: 2, column: 2), .init(line: 3, column: 1)]
        )
        #expect(document.place(of: members[0].value.range.lowerBound) == .init(line: 2, column: 7))
    }

    @Test("Depth and length are limited")
    func bounds() {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(refusal(nested(32)) == "config.json:1: the file is an array; allowed is an object")
        #expect(refusal(nested(33)) == "config.json:1:34: objects and arrays are nested deeper than 32 levels")
        #expect(
            refusal(String(repeating: "[", count: 1_000_000))
                == "config.json:1:34: objects and arrays are nested deeper than 32 levels"
        )
        let wide = "[" + String(repeating: "1,", count: 65_536) + "1]"
        #expect(refusal(wide) == "config.json:1:131074: an object or array has too many elements")
        let padding = String(repeating: " ", count: (1 << 20) - 2)
        #expect(refusal(padding + "[]") == "config.json:1: the file is an array; allowed is an object")
        #expect(refusal(padding + "[] ") == "config.json: the text is longer than 1048576 bytes")
        let endless = repeatElement(UInt8(ascii: " "), count: .max)
        #expect(throws: TransportError.self) { try TransportConfiguration(json: endless) }
        let long = String(repeating: "k", count: 100_000)
        #expect(refusal(with: "\"\(long)\": 1")?.utf8.count ?? .max < 300)
        #expect(refusal(with: "\"codec\": \"\(long)\"")?.utf8.count ?? .max < 300)
    }

    @Test("Every prefix of a valid file is refused with a typed error")
    func truncated() throws {
        let bytes = Array(completeFile.utf8)
        for count in 0..<bytes.count {
            let error = #expect(throws: TransportError.self) {
                try TransportConfiguration(json: bytes[..<count], label: "x")
            }
            let problem = count == 0 ? "the text is empty" : "the text ends before its last value does"
            #expect(error?.reason.contains(problem) == true)
        }
    }

    @Test("Damaged files are read or refused, and never trap")
    func damaged() {
        let original = Array(completeFile.utf8)
        var random = RandomSource.seeded(7)
        for _ in 0..<4000 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 1: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 2: bytes.remove(at: index)
                default: bytes.insert(bytes[Int.random(in: bytes.indices, using: &random)], at: index)
                }
            }
            do throws(TransportError) {
                #expect(try !TransportConfiguration(json: bytes).endpoints.isEmpty)
            } catch {
                #expect(error.code == .invalidConfiguration && error.phase == .configure)
                #expect(error.reason.hasPrefix("configuration:"))
            }
        }
    }
}
