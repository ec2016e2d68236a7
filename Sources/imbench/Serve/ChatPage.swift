import CPages
import CommandSupport
import Primitives
import Protocols
import Reporting
import TransportAPI

/// The web page of a chat server: one HTML document with its style and its scripts. It connects to its own server only, by
/// WebSocket or by requests, and its policy allows nothing else.
enum ChatPage {
    /// The page of a server whose WebSocket is at `socketPath`.
    ///
    /// - Parameter hasFallback: Whether the server offers the same over ordinary requests.
    static func page(socketPath: String, hasFallback: Bool = false) throws(TransportError) -> WebPage {
        let style = String(cString: cpages_page_css())
        let script =
            [cpages_httpsocket_js(), cpages_session_js(), cpages_conversation_js(), cpages_page_js()].map {
                String(cString: $0)
            }.joined()
        let document = String(cString: cpages_page_html())
            .replacing("{socket}", with: HTMLRenderer.escaped(socketPath))
            .replacing("{fallback}", with: hasFallback ? "on" : "off")
            .replacing("{style}", with: style)
            .replacing("{script}", with: script)
        // Inline style and scripts are allowed by their hashes (Content Security Policy Level 3, section 8).
        let policy = [
            "default-src 'none'", "script-src '\(hash(script))'", "style-src '\(hash(style))'", "connect-src 'self'",
            "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        ]
        let headers = try [
            HTTPHeader("Content-Security-Policy", policy.joined(separator: "; ")),
            HTTPHeader("Referrer-Policy", "no-referrer"),
            // After an update of the program, the server has another page at the same address.
            HTTPHeader("Cache-Control", "no-store"),
        ]
        return try WebPage(headers: headers, body: Array(document.utf8))
    }

    /// The URL of the page of a server; `nil` if its transport serves no pages. A server at all addresses is reached by its
    /// loopback address on its own machine.
    static func url(of endpoint: Endpoint) -> String? {
        let schemes = ["ws": "http", "wss": "https"]
        guard let scheme = schemes[endpoint.scheme] else { return nil }
        let everywhere = ["0.0.0.0": "127.0.0.1", "::": "::1"]
        let host = everywhere[endpoint.host] ?? endpoint.host
        return "\(scheme)://\(HTTPSyntax.authority(host: host, port: endpoint.port))/"
    }

    private static func hash(_ text: String) -> String {
        "sha256-" + String(decoding: Base64.encode(SHA256.digest(Array(text.utf8))), as: UTF8.self)
    }
}
