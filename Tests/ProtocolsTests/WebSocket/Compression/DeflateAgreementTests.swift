import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("Agreement on compression", .enabled(if: ZLib.shared != nil))
struct DeflateAgreementTests {
    typealias Change = @Sendable (inout WebSocketCompression) -> Void

    static func settings(_ change: Change = { _ in }) throws -> WebSocketCompression {
        var settings = WebSocketCompression(try #require(ZLib.shared))
        change(&settings)
        return settings
    }

    static let usual: Change = { _ in }
    static let small: Change = { ($0.windowBits, $0.peerWindowBits) = (10, 11) }
    static let forgetful: Change = { ($0.keepsContext, $0.peerKeepsContext) = (false, false) }

    @Test(
        "A client offers its settings",
        arguments: [
            (usual, "permessage-deflate; client_max_window_bits"),
            (small, "permessage-deflate; server_max_window_bits=11; client_max_window_bits=10"),
            (
                forgetful,
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"
            ),
        ] as [(Change, String)]
    )
    func offer(change: Change, expected: String) throws {
        #expect(DeflateAgreement.offer(try Self.settings(change)) == expected)
    }

    @Test(
        "A server accepts the first offer that it supports",
        arguments: [
            (usual, ["permessage-deflate"], "permessage-deflate"),
            (usual, ["permessage-deflate; client_max_window_bits"], "permessage-deflate"),
            (
                usual, ["x; y=1", "permessage-deflate; server_max_window_bits=8", "permessage-deflate"],
                "permessage-deflate"
            ),
            (
                usual, [#"permessage-deflate ; server_max_window_bits = "10"; client_max_window_bits=9"#],
                "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9"
            ),
            (
                usual, ["permessage-deflate; client_no_context_takeover; server_no_context_takeover"],
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
            ),
            (
                small, ["permessage-deflate; client_max_window_bits"],
                "permessage-deflate; server_max_window_bits=10; client_max_window_bits=11"
            ),
            (small, ["permessage-deflate"], "permessage-deflate; server_max_window_bits=10"),
            (
                forgetful, ["permessage-deflate"],
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
            ),
            (usual, ["permessage-deflate; unknown"], nil), (usual, [], nil), (usual, ["deflate"], nil),
            (usual, ["permessage-deflate; server_max_window_bits"], nil),
            (usual, ["permessage-deflate; server_max_window_bits=16"], nil),
            (usual, ["permessage-deflate; server_max_window_bits=010"], nil),
            (usual, ["permessage-deflate; client_max_window_bits=7"], nil),
            (usual, ["permessage-deflate; server_no_context_takeover=1"], nil),
            (usual, ["permessage-deflate; client_max_window_bits; client_max_window_bits"], nil),
            (usual, ["permessage-deflate;"], nil),
            // The semicolon is recognized even if a combining accent follows it.
            (usual, ["permessage-deflate;\u{301}server_no_context_takeover"], nil),
        ] as [(Change, [String], String?)]
    )
    func accept(change: Change, offers: [String], expected: String?) throws {
        let settings = try Self.settings(change)
        let answer = WebSocketExtension.list(offers).flatMap { DeflateAgreement.accept($0, settings)?.answer }
        #expect(answer == expected)
    }

    @Test("A client follows the server's answer")
    func answer() throws {
        let header =
            "permessage-deflate; client_no_context_takeover; client_max_window_bits=9; server_max_window_bits=\"1\\2\""
        let answer = try #require(WebSocketExtension.list([header]))
        let agreement = try DeflateAgreement.read(answer, offered: try Self.settings())
        #expect(agreement?.client == .init(windowBits: 9, keepsContext: false))
        #expect(agreement?.server == .init(windowBits: 12, keepsContext: true))
        #expect(try DeflateAgreement.read([], offered: try Self.settings()) == nil)
    }

    @Test(
        "An answer that does not match the offer fails the handshake",
        arguments: [
            (usual, "x-other"), (usual, "permessage-deflate, permessage-deflate"),
            (usual, "permessage-deflate; unknown"), (usual, "permessage-deflate; client_max_window_bits"),
            (usual, "permessage-deflate; server_max_window_bits=7"), (small, "permessage-deflate"),
            (small, "permessage-deflate; server_max_window_bits=12"), (forgetful, "permessage-deflate"),
        ] as [(Change, String)]
    )
    func refused(change: Change, answer: String) throws {
        let settings = try Self.settings(change)
        var client = try ClientHandshakeTests.client { $0.compression = settings }
        client.feed(response(key: client.core.key, with: ["Sec-WebSocket-Extensions: \(answer)"]))
        #expect(client.failure?.code == .handshakeFailed)
    }

    @Test("A window size that zlib does not support is rejected by the name of its key", arguments: [8, 16])
    func windows(bits: Int) throws {
        for change in [{ $0.windowBits = bits }, { $0.peerWindowBits = bits }] as [Change] {
            var configuration = WebSocketConfiguration()
            configuration.compression = try Self.settings(change)
            let error = #expect(throws: TransportError.self) { try configuration.validate() }
            #expect(error?.code == .invalidConfiguration && error?.reason.hasPrefix("compression") == true)
        }
    }
}
