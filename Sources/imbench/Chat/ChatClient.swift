import Codecs
import CommandSupport
import EmbeddedServers
import Foundation
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// The output of a chat. Its calls run on the loop. Blocked output blocks the chat, and messages of other members wait at the
/// server.
protocol ChatDisplay: Sendable {
    func show(_ line: ChatLine)
}

/// Runs a ``ChatConversation`` over a supervisor. It belongs to the loop.
final class ChatClient {
    /// How many messages may be in flight before ``typed(_:)`` waits.
    static let inFlightLimit = 256

    private let loop: EventLoop
    private let registry: TransportRegistry
    private let display: any ChatDisplay
    private let longestHold: Duration
    private var conversation: ChatConversation
    private var channel: Channel<ChatMessage>?
    private(set) var state = SupervisorState.idle
    /// Whether there was a connection.
    private(set) var hasOpened = false
    /// Why the last attempt has failed, or the last connection has ended.
    private(set) var lastReason: String?
    private var waiters: [UnsafeContinuation<Void, Never>] = []

    private init(_ setup: ChatSetup, _ display: any ChatDisplay, _ registry: TransportRegistry, on loop: EventLoop) {
        self.loop = loop
        self.registry = registry
        self.display = display
        longestHold = setup.longestHold
        let instance = String(UInt64.random(in: (1 << 60)...UInt64.max), radix: 36)
        conversation = ChatConversation(name: setup.name, room: setup.room, instance: instance)
    }

    /// Starts a chat.
    ///
    /// - Throws: an error of the configuration.
    nonisolated(nonsending) static func start(
        _ setup: ChatSetup,
        _ display: any ChatDisplay,
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .trial
    ) async throws(TransportError) -> LoopBound<ChatClient> {
        let client = LoopBound(ChatClient(setup, display, registry, on: loop), to: loop)
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

    /// Sends a text of the user. Waits while too many messages are in flight.
    nonisolated(nonsending) func typed(_ text: String, _ client: LoopBound<ChatClient>) async {
        while conversation.inFlight >= Self.inFlightLimit, !state.isFinal {
            await withUnsafeContinuation { waiters.append($0) }
        }
        run(client) { $0.typed(text, atMs: Clocks.milliseconds(), &$1) }
    }

    /// How many messages have no outcome yet.
    var inFlight: Int { conversation.inFlight }

    /// Shows the last messages.
    func showHistory() {
        for line in conversation.history { display.show(.status(line)) }
    }

    /// Shows the state of the connection.
    nonisolated(nonsending) func showState() async {
        let time = await channel?.supervisor.roundTripTime()
        let trip = time.map { ", round trip \(fixed(Double($0.wholeNanoseconds) / 1e6, 2)) ms" } ?? ""
        let counts = "\(conversation.inFlight) in flight, \(conversation.unconfirmed) not confirmed"
        display.show(.status("\(state.words)\(trip), \(counts)"))
    }

    /// Ends the chat.
    nonisolated(nonsending) func close() async {
        if conversation.isOverBroker, state.isOpen { _ = try? await channel?.submit(conversation.farewell) }
        await channel?.supervisor.close()
        channel = nil
    }

    // MARK: Events

    fileprivate func received(_ event: SupervisorEvent, _ client: LoopBound<ChatClient>) {
        switch event {
        case .state(let state):
            self.state = state
            display.show(.status(state.words))
            switch state {
            case .open: hasOpened = true
            case .waiting(_, let reason): lastReason = reason.words
            default: break
            }
            if case .open(let endpoint, isResumed: false) = state {
                let isOverBroker = (try? registry.transport(for: endpoint))?.capabilities.routesByTopic ?? false
                run(client) { $0.began(isOverBroker: isOverBroker, &$1) }
            }
            wake()
        case .sessionLost: display.show(.status("the server has lost the session; unconfirmed messages are sent again"))
        default: break
        }
    }

    private func received(_ payload: Payload, _ client: LoopBound<ChatClient>) {
        // Other members may use another format.
        guard let (message, _) = ChatMessage.read(payload) else {
            return display.show(.status("\(payload.bytes.count) received bytes are no message"))
        }
        let now = loop.now / 1_000_000
        run(client) { $0.received(message, atMs: now, &$1) }
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
            case .wait:
                let deadline = loop.now + longestHold.wholeNanoseconds
                _ = loop.schedule(at: deadline) { [self] in run(client) { $0.waited(&$1) } }
            }
        }
        if conversation.inFlight < Self.inFlightLimit { wake() }
    }

    /// Tasks on the loop begin in the order of their creation, so messages keep their order.
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

/// Passes the events of a supervisor to a chat.
private struct ChatObserver: SupervisorObserver {
    let client: LoopBound<ChatClient>

    func note(_ event: SupervisorEvent, at _: Instant) {
        client.value.received(event, client)
    }
}

extension SupervisorState {
    /// One line for the user of a chat.
    var words: String {
        switch self {
        case .idle: return "not started"
        case .connecting(let attempt, var endpoint):
            // Options are long, and the user knows them.
            endpoint.options = []
            return "connecting to \(endpoint)" + (attempt > 1 ? ", attempt \(attempt)" : "")
        case .open(_, let isResumed): return isResumed ? "open, session resumed" : "open, new session"
        case .waiting(let delay, let reason):
            let seconds = fixed(Double(delay.wholeNanoseconds) / 1e9, 1)
            return "\(reason.words); next attempt in \(seconds) s"
        case .offline: return "offline"
        case .suspended: return "suspended"
        case .closed(let reason):
            return reason.initiator == .user ? "closed" : "closed: \(reason.words)"
        }
    }
}

extension CloseReason {
    /// The sentence of the error, or what the peer has said.
    fileprivate var words: String { error?.sentence ?? "\(self)" }
}
