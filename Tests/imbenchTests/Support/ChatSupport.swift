import Codecs
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

@testable import imbench

/// Keeps what a chat shows, and lets a test wait for it.
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

    /// What others have written.
    var heard: [String] { Self.heard(lines) }

    static func heard(_ lines: [ChatLine]) -> [String] {
        lines.compactMap { if case .other(_, let text) = $0 { text } else { nil } }
    }

    /// How many messages have their second tick.
    static func confirmed(_ lines: [ChatLine]) -> Int {
        lines.count { if case .confirmed = $0 { true } else { false } }
    }

    /// How often the chat was open.
    static func openings(_ lines: [ChatLine]) -> Int {
        lines.count { if case .status(let text) = $0 { text.hasPrefix("open") } else { false } }
    }
}

/// One person at a chat.
struct ChatPerson: Sendable {
    let name: String
    let display = RecordingDisplay()
    let client: LoopBound<ChatClient>

    /// Comes into the lobby of a server, with short pauses between attempts, and waits until it is open.
    init(_ name: String, at server: Endpoint, codec: WireFormat = .json) async throws {
        self.name = name
        let file = """
            {"endpoints": ["\(server)"], "codec": "\(codec.name)", "delivery": {"mode": "session"},
             "backoff": {"policy": "fixed", "delay": "20ms"}, "keepalive": {"interval": "2s", "timeout": "2s"}}
            """
        let configuration = try TransportConfiguration(json: file.utf8)
        var setup = try ChatSetup(configuration, name: name, room: "lobby")
        // However slow the machine is: what is held comes when the one before it has come.
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
