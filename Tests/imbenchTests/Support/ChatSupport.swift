import Codecs
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

@testable import CommandSupport
@testable import imbench

/// Records the lines of a chat. A test can wait for a line.
final class RecordingDisplay: ChatDisplay {
    private struct State {
        var lines: [ChatLine] = []
        var waiters: [(isMet: @Sendable ([ChatLine]) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Locked(State())

    var lines: [ChatLine] { state.withLock { $0.lines } }

    func show(_ line: ChatLine) {
        let woken = state.withLock { state in
            state.lines.append(line)
            let met = state.waiters.filter { $0.isMet(state.lines) }
            state.waiters.removeAll { $0.isMet(state.lines) }
            return met
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Waits until the lines meet a condition.
    func wait(until isMet: @escaping @Sendable ([ChatLine]) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isMetAlready = state.withLock { state in
                if isMet(state.lines) { return true }
                state.waiters.append((isMet, continuation))
                return false
            }
            if isMetAlready { continuation.resume() }
        }
    }

    /// The texts of other members.
    var received: [String] { Self.received(lines) }

    static func received(_ lines: [ChatLine]) -> [String] {
        lines.compactMap { if case .other(_, let text, _) = $0 { text } else { nil } }
    }

    /// The number of messages that all other members have read.
    static func confirmed(_ lines: [ChatLine]) -> Int {
        lines.count { if case .read(_, _, let count, let all) = $0 { count == all } else { false } }
    }

    /// Whether a line says that so many of so many members have read a message.
    static func isRead(_ lines: [ChatLine], by count: Int, of all: Int) -> Bool {
        lines.contains { if case .read(_, _, count, all) = $0 { true } else { false } }
    }

    /// How often the chat has opened a connection.
    static func openings(_ lines: [ChatLine]) -> Int {
        lines.count { if case .status(let text) = $0 { text.hasPrefix("open") } else { false } }
    }
}

/// One member of a chat.
struct ChatPerson: Sendable {
    let name: String
    let display = RecordingDisplay()
    let client: LoopBound<ChatClient>

    /// Enters the lobby of a server, with short pauses between attempts, and waits until the connection is open.
    init(_ name: String, at server: Endpoint, codec: WireFormat = .json) async throws {
        self.name = name
        var server = server
        // A session needs acknowledgements, and a configuration is checked before the chat adds its own options.
        server.options += TransportRegistry.acknowledging(server.scheme)
        let file = """
            {"endpoints": ["\(server)"], "codec": "\(codec.name)", "delivery": {"mode": "session"},
             "backoff": {"policy": "fixed", "delay": "20ms"}, "keepalive": {"interval": "2s", "timeout": "2s"}}
            """
        let configuration = try TransportConfiguration(json: file.utf8)
        var setup = try ChatSetup(configuration, name: name, room: "lobby")
        // On a slow machine, a held message must not be shown before its predecessor.
        setup.longestHold = .seconds(3600)
        client = try await ChatClient.start(setup, display)
        await display.wait { RecordingDisplay.openings($0) > 0 }
    }

    func type(_ text: String) async {
        await withTaskExecutorPreference(client.loop) { [client] in await client.value.typed(text, client) }
    }

    func type(_ range: Range<Int>) async {
        for number in range { await type("\(name) \(number)") }
    }

    func leave() async {
        await withTaskExecutorPreference(client.loop) { [client] in await client.value.close() }
    }
}
