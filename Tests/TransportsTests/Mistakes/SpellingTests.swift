import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

@Suite("Misspelt words")
struct SpellingTests {
    /// `word` with the two letters before its last one swapped, or with a letter more if that changes nothing.
    private func misspelt(_ word: String) -> String {
        guard word.count > 3 else { return word + "x" }
        var letters = Array(word)
        letters.swapAt(letters.count - 2, letters.count - 3)
        return String(letters) == word ? word + "x" : String(letters)
    }

    private func sentence(_ url: String) throws -> String {
        let error = try #require(throws: TransportError.self) {
            _ = try TransportRegistry.standard.transport(for: Endpoint(url))
        }
        #expect(error.code == .invalidConfiguration || error.code == .unsupported)
        return error.reason
    }

    @Test(
        "A misspelt option of any transport gets the right name",
        arguments: TransportRegistry.available.transports
    )
    func optionNames(transport: TransportDescriptor) throws {
        for option in transport.clientSettings + transport.serverSettings {
            let text = try sentence("\(transport.name)://host:1?\(misspelt(option.name))=1")
            // Another option can be as near.
            #expect(text.contains("did you mean \""), "\(option.name): \(text)")
        }
    }

    @Test(
        "An option that no transport has can be meant for the server",
        arguments: [
            ("wss://host/socket?token=abc", "token", "query=token%3Dabc"),
            ("ws://host?token=a%26b&room=7&deflate=on", "token", "query=token%3Da%2526b%26room%3D7"),
            ("mqtt+ws://host?tenant=x", "tenant", "query=tenant%3Dx"),
            ("memory://host?tenant=x", "tenant", "query=tenant%3Dx"),
            // A long value is not repeated, and neither is one that may be the rest of a password.
            ("ws://host?token=\(String(repeating: "a", count: 65))", "token", "query=token%3D…"),
            ("ws://host?token=a@b", "token", "query=token%3D…"),
        ]
    )
    func queries(url: String, name: String, query: String) throws {
        let text = try sentence(url)
        #expect(text.hasPrefix("\(name) is not known; "), "\(text)")
        #expect(text.contains(" to send it to the server, write \(query); allowed are "), "\(text)")
        // Only options that a client uses are offered.
        #expect(!text.contains("max-connections") && !text.contains("origins") && text.contains("query"), "\(text)")
        if query.hasSuffix("…") { return }
        var corrected = try Endpoint(url)
        corrected.options = corrected.options.filter { $0.name == "deflate" }
        let option = try Endpoint("ws://host?\(query)").options
        corrected.options += option
        _ = try TransportRegistry.standard.transport(for: corrected)
    }

    @Test("Over a transport without a query, no query is proposed")
    func withoutQuery() throws {
        #expect(try !sentence("tcp://host?token=abc").contains("query="))
    }

    @Test("The error of a server offers a server's options")
    func serverOptions() async throws {
        let error = await #expect(throws: TransportError.self) {
            _ = try await TransportRegistry.standard.listen("ws://127.0.0.1:0?token=abc")
        }
        let text = try #require(error).reason
        #expect(text.contains("max-connections") && text.contains("origins") && !text.contains("query"), "\(text)")
    }

    @Test("An option of another transport is refused with the name of that transport")
    func optionsOfOthers() throws {
        let text = try sentence("tcp://host:1?deflate=small")
        #expect(text.hasPrefix("deflate is an option of ws://, wss://; allowed for tcp:// are "), "\(text)")
    }

    @Test(
        "A misspelt value of an option gets the right one",
        arguments: [
            ("tcp://host?framing=u6", "u16"), ("tcp://host?framing=varnit", "varint"),
            ("tcp://host?framing=u16&byte-order=litle", "little"),
            ("tcp://host?framing=u16&header-included=ture", "true"), ("udp://host?reliable=orderd", "ordered"),
            ("udp://host?plain=onn", "on"), ("ws://host?deflate=smal", "small"),
            ("mqtt://host?clean-session=of", "off"),
        ]
    )
    func values(url: String, word: String) throws {
        let text = try sentence(url)
        #expect(text.contains("did you mean \"\(word)\""), "\(text)")
    }

    @Test("A misspelt scheme gets the right one", arguments: TransportRegistry.available.transports.map(\.name))
    func schemes(name: String) throws {
        #expect(try sentence("\(name)x://host").contains("did you mean \""))
        #expect(try sentence("websocket://host").contains("ws://"))
    }

    @Test("A misspelt key of the configuration gets the right one")
    func keys() throws {
        for row in TransportConfiguration.object.rows {
            var path = row.name.split(separator: ".").map(String.init)
            let name = path.removeLast()
            var json = "\"\(misspelt(name))\": 1"
            for outer in path.reversed() { json = "\"\(outer)\": {\(json)}" }
            // The policy and the algorithm of an object come before its other keys.
            let text = try #require(refusal(with: json), "\(row.name)")
            #expect(text.contains("did you mean \""), "\(row.name): \(text)")
        }
    }

    @Test(
        "Another name of a transport gets the right scheme",
        arguments: [
            ("websocket", "ws"), ("ssl", "tls"), ("tcps", "tls"), ("tcp+tls", "tls"), ("mqtt+ssl", "mqtts"),
            ("udps", "dtls"), ("xmpp+tls", "xmpps"),
        ]
    )
    func otherNames(scheme: String, right: String) throws {
        #expect(try sentence("\(scheme)://host") == "scheme is \"\(scheme)\"; here it is \(right)://")
    }
}
