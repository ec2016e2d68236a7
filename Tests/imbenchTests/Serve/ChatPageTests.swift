import Primitives
import Testing
import TransportAPI

@testable import CommandSupport
@testable import Protocols
@testable import imbench

@Suite("The page of a chat server")
struct ChatPageTests {
    @Test("SHA-256 agrees with the examples of FIPS 180, and with lengths around a block")
    func digests() {
        func hexadecimal(_ text: String) -> String {
            SHA256.digest(Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        #expect(hexadecimal("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(hexadecimal("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        let two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
        #expect(hexadecimal(two) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
        let million = String(repeating: "a", count: 1_000_000)
        #expect(hexadecimal(million) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test("The URL of the page is that of the server, and a server at all addresses has its loopback address")
    func urls() throws {
        for (server, page) in [
            ("ws://127.0.0.1:8080/chat", "http://127.0.0.1:8080/"),
            ("wss://chat.example:8443", "https://chat.example:8443/"),
            ("ws://[::1]:8080", "http://[::1]:8080/"), ("ws://0.0.0.0:80", "http://127.0.0.1:80/"),
            ("ws://[::]:80", "http://[::1]:80/"), ("tcp://127.0.0.1:1", nil), ("mqtt+ws://127.0.0.1:1", nil),
        ] as [(String, String?)] {
            #expect(ChatPage.url(of: try Endpoint(server)) == page)
        }
    }

    @Test("The page is complete, whatever the path of the WebSocket")
    func complete() throws {
        for (path, escaped) in [("/", "/"), ("/a&\"<b", "/a&amp;&quot;&lt;b")] {
            let page = try ChatPage.page(socketPath: path)
            #expect(page.path == "/")
            var output = ByteBuffer()
            page.write(to: &output, withBody: true, unixTime: nil)
            let text = output.withUnsafeReadableBytes { String(decoding: $0, as: UTF8.self) }
            #expect(text.contains("<meta name=\"socket\" content=\"\(escaped)\">"))
            #expect(text.hasSuffix("</html>\n"))
            for place in ["{socket}", "{style}", "{script}"] { #expect(!text.contains(place), "\(place)") }
        }
    }
}
