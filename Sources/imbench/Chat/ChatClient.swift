import Codecs
import EmbeddedServers
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// Where a chat is shown. Called on the loop: a screen that stands still holds up the chat, and what others write waits at
/// the server.
protocol ChatDisplay: Sendable {
    func show(_ line: ChatLine)
}

/// Runs a ``ChatConversation`` over a supervisor. Lives on its loop.
final class ChatClient {
    /// How many messages may be under way before ``typed(_:)`` waits.
    static let underWayLimit = 256

    private let loop: EventLoop
    private let display: any ChatDisplay
    private let longestHold: Duration
    private var conversation: ChatConversation
    private var channel: Channel<ChatMessage>?
    private var hasBegun = false
    private(set) var state = SupervisorState.idle
    private var waiters: [UnsafeContinuation<Void, Never>] = []

    private init(_ setup: ChatSetup, _ display: any ChatDisplay, on loop: EventLoop) {
        self.loop = loop
        self.display = display
        longestHold = setup.longestHold
        let instance = String(UInt64.random(in: (1 << 60)...UInt64.max), radix: 36)
        conversation = ChatConversation(name: setup.name, room: setup.room, instance: instance)
    }

    /// Starts a chat.
    ///
    /// - Throws: what is wrong with the configuration.
    nonisolated(nonsending) static func start(
        _ setup: ChatSetup,
        _ display: any ChatDisplay,
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .standard
    ) async throws(TransportError) -> LoopBound<ChatClient> {
        let client = LoopBound(ChatClient(setup, display, on: loop), to: loop)
        let supervisor = try Supervisor(setup.configuration, registry: registry, on: loop) {
            $0.observer = ChatObserver(client: client)
        }
        await withTaskExecutorPreference(loop) {
            client.value.channel = supervisor.channel(of: ChatMessage.self, codec: setup.configuration.codec.codec())
        }
        Task(executorPreference: loop) {
            for await payload in supervisor.messages { client.value.received(payload, client) }
        }
        supervisor.connect()
        return client
    }

    // MARK: The user

    /// Sends what the user has written; waits while too much is under way.
    nonisolated(nonsending) func typed(_ text: String, _ client: LoopBound<ChatClient>) async {
        while conversation.underWay >= Self.underWayLimit, !state.isFinal {
            await withUnsafeContinuation { waiters.append($0) }
        }
        let milliseconds = Clocks.secondsSince1970() * 1000
        run(client) { $0.typed(text, atMs: milliseconds, &$1) }
    }

    /// How many messages have no outcome yet.
    var underWay: Int { conversation.underWay }

    /// Shows the last messages.
    func showHistory() {
        for line in conversation.history { display.show(.status(line)) }
    }

    /// Shows how the connection is.
    nonisolated(nonsending) func showState() async {
        let time = await channel?.supervisor.roundTripTime()
        let trip = time.map { ", round trip \(fixed(Double($0.wholeNanoseconds) / 1e6, 2)) ms" } ?? ""
        let counts = "\(conversation.underWay) under way, \(conversation.unconfirmed) not confirmed"
        display.show(.status("\(state.words)\(trip), \(counts)"))
    }

    /// Ends the chat.
    nonisolated(nonsending) func close() async {
        await channel?.supervisor.close()
        channel = nil
    }

    // MARK: What happens

    fileprivate func noted(_ note: SupervisorEvent, _ client: LoopBound<ChatClient>) {
        switch note {
        case .state(let state):
            self.state = state
            display.show(.status(state.words))
            if case .open(_, isResumed: false) = state { run(client) { $0.began(&$1) } }
            wake()
        case .sessionLost: display.show(.status("the server has forgotten the session; sending again"))
        default: break
        }
    }

    private func received(_ payload: Payload, _ client: LoopBound<ChatClient>) {
        // Others may write in another format.
        guard let (message, _) = ChatMessage.read(payload) else {
            return display.show(.status("\(payload.bytes.count) bytes came that are no message"))
        }
        run(client) { $0.received(message, &$1) }
    }

    private func run(
        _ client: LoopBound<ChatClient>,
        _ event: (inout ChatConversation, inout [ChatConversation.Action]) -> Void
    ) {
        var actions: [ChatConversation.Action] = []
        event(&conversation, &actions)
        for action in actions {
            switch action {
            case .show(let line): display.show(line)
            case .send(let number, let message): send(number, message, client)
            case .wait(let id):
                let deadline = loop.now + longestHold.wholeNanoseconds
                _ = loop.schedule(at: deadline) { [self] in run(client) { $0.waited(for: id, &$1) } }
            }
        }
        if conversation.underWay < Self.underWayLimit { wake() }
    }

    /// Tasks on the loop begin in the order in which they were made, so that messages keep theirs.
    private func send(_ number: UInt64?, _ message: ChatMessage, _ client: LoopBound<ChatClient>) {
        guard let channel else { return }
        Task(executorPreference: loop) {
            let outcome = await channel.send(message)
            if let number { client.value.run(client) { $0.settled(number, outcome, &$1) } }
        }
    }

    private func wake() {
        let woken = waiters
        waiters = []
        for waiter in woken { waiter.resume() }
    }
}

/// Tells a chat what its supervisor does.
private struct ChatObserver: SupervisorObserver {
    let client: LoopBound<ChatClient>

    func note(_ note: SupervisorEvent, at _: Instant) {
        client.value.noted(note, client)
    }
}

extension SupervisorState {
    /// One line for somebody who chats.
    var words: String {
        switch self {
        case .idle: return "not started"
        case .connecting(let attempt, var endpoint):
            // Options are long, and nothing new.
            endpoint.options = []
            return "connecting to \(endpoint)" + (attempt > 1 ? ", attempt \(attempt)" : "")
        case .open(_, let isResumed): return isResumed ? "open, session resumed" : "open, new session"
        case .waiting(let delay, let reason):
            return
                "waiting \(fixed(Double(delay.wholeNanoseconds) / 1e9, 1)) s because: \(reason.error?.reason ?? "\(reason)")"
        case .offline: return "offline"
        case .suspended: return "suspended"
        case .closed(let reason):
            return reason.initiator == .user ? "closed" : "closed: \(reason.error?.reason ?? "\(reason)")"
        }
    }
}
