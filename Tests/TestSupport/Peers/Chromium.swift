import Foundation
import SocketIO
import Testing
import TransportAPI
import Transports

/// A headless Chromium, controlled by its debugging protocol over our own WebSocket client.
package final class Chromium: Sendable {
    private let process: Peer
    private let connection: any Connection
    private let state: Locked<State>
    private let profile: ScratchFolder

    /// The browser's error for a call.
    package struct Failure: Error {
        var sentence: String
    }

    private struct State {
        var lastID = 0
        var scriptErrors: [String] = []
    }

    /// Starts a browser.
    ///
    /// - Parameter options: further words of its command line.
    package static func start(_ options: String...) async throws -> Chromium {
        let program = try #require(Peers.chromium)
        let profile = try ScratchFolder()
        let words =
            [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--disable-crash-reporter", "--remote-debugging-port=0",
                "--user-data-dir=\(profile.path)",
            ] + options + ["about:blank"]
        let process = try Peer(program, words, leadsGroup: true)
        let address = try await aside {
            while let line = process.line() {
                if let address = line.firstMatch(of: /DevTools listening on (ws:\S+)/) { return String(address.1) }
            }
            return ""
        }
        return Chromium(process, try await TransportRegistry.standard.connect(address), profile)
    }

    private init(_ process: Peer, _ connection: any Connection, _ profile: ScratchFolder) {
        (self.process, self.connection, self.profile) = (process, connection, profile)
        state = Locked(State())
    }

    /// Ends the browser.
    package func stop() {
        process.destroy()
    }

    /// The errors of scripts, and violations of pages' policies.
    package var scriptErrors: [String] { state.withLock { $0.scriptErrors } }

    /// Opens a page in a window of its own, and returns its session.
    ///
    /// - Parameter script: a script that runs before those of the page.
    package func open(_ url: String, running script: String = "") async throws -> Page {
        let target = try await call("Target.createTarget", ["url": "about:blank", "newWindow": true])
        let session = try await call("Target.attachToTarget", ["targetId": target["targetId"] ?? "", "flatten": true])
        let page = Page(browser: self, session: try #require(session["sessionId"] as? String))
        // The script runs only if the domain Page is enabled.
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            _ = try await call(domain, [:], in: page.session)
        }
        _ = try await call("Page.addScriptToEvaluateOnNewDocument", ["source": script], in: page.session)
        _ = try await call("Page.navigate", ["url": url], in: page.session)
        return page
    }

    /// Calls a method and returns its result. Events that come before are recorded.
    fileprivate func call(
        _ method: String,
        _ parameters: sending [String: Any],
        in session: String? = nil
    ) async throws -> sending [String: Any] {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        var request: [String: Any] = ["id": id, "method": method, "params": parameters]
        if let session { request["sessionId"] = session }
        let bytes = try JSONSerialization.data(withJSONObject: request)
        let outcome = await connection.send(Payload(text: String(decoding: bytes, as: UTF8.self)))
        try #require(outcome == .written)
        while true {
            guard let payload = try await connection.receive() else {
                throw Failure(sentence: "\(method): the browser has ended")
            }
            let message = try #require(try JSONSerialization.jsonObject(with: Data(payload.bytes)) as? [String: Any])
            if message["id"] as? Int == id {
                if let result = message["result"] as? [String: Any] { return result }
                throw Failure(sentence: "\(method): \(message["error"] ?? "no result")")
            }
            note(message)
        }
    }

    private func note(_ message: [String: Any]) {
        let parameters = message["params"] as? [String: Any] ?? [:]
        switch message["method"] as? String {
        case "Runtime.exceptionThrown":
            state.withLock { $0.scriptErrors.append("\(parameters["exceptionDetails"] ?? "an exception")") }
        case "Log.entryAdded":
            let entry = parameters["entry"] as? [String: Any] ?? [:]
            // A failed connection is a network error, and part of a test.
            guard entry["level"] as? String == "error", entry["source"] as? String != "network" else { return }
            let text = entry["text"] as? String ?? "an entry"
            if !text.contains("WebSocket connection to") { state.withLock { $0.scriptErrors.append(text) } }
        default: break
        }
    }

    /// A page of the browser. One task at a time uses the pages of a browser.
    package struct Page: Sendable {
        fileprivate let browser: Chromium
        fileprivate let session: String

        /// The value of an expression as a text; `nil` if the page is not loaded, or the expression throws.
        package func value(_ expression: String) async throws -> String? {
            let source = "Promise.resolve(\(expression)).then(String)"
            do {
                let parameters: [String: Any] = ["expression": source, "awaitPromise": true]
                let result = try await browser.call("Runtime.evaluate", parameters, in: session)
                return result["exceptionDetails"] == nil
                    ? (result["result"] as? [String: Any])?["value"] as? String : nil
            } catch is Failure {
                // The page is being replaced by the next one.
                return nil
            }
        }

        /// Gives the page a window of this width, and its reader's choice of dark or light colours.
        package func show(width: Int, isDark: Bool) async throws {
            let metrics: [String: Any] = ["width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false]
            _ = try await browser.call("Emulation.setDeviceMetricsOverride", metrics, in: session)
            let colours = ["name": "prefers-color-scheme", "value": isDark ? "dark" : "light"]
            _ = try await browser.call("Emulation.setEmulatedMedia", ["features": [colours]], in: session)
        }

        /// Waits until an expression is true. The time limit of the test also limits the wait.
        package func wait(until expression: String) async throws {
            // The page answers after its next timer, so that this loop does not use a whole processor.
            let attempt = "try { done(Boolean(\(expression))) } catch { done(false) }"
            while try await value("new Promise(done => setTimeout(() => { \(attempt) }, 20))") != "true" {}
        }
    }
}
