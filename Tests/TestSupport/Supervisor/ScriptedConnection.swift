import Primitives
import SocketIO
import TransportAPI

/// A connection that a test controls.
package final class ScriptedConnection: LocalConnection {
    private struct State: Sendable {
        var inbox: [Payload] = []
        var receiver: UnsafeContinuation<Void, Never>?
        var localReceiver: RuntimeBound<Box<any ConnectionReceiver>>?
        var sent: [Payload] = []
        var blocked: [UnsafeContinuation<Void, Never>] = []
        var isBlocked = false
        var outcome = SendOutcome.written
        var reason: CloseReason?
        var closers: [UnsafeContinuation<Void, Never>] = []
        var pings = 0
        var confirmed = 0
        var roundTrip: Duration?
        var closesSlowly = false
        var undelivered = 0
        var slowCloses: [UnsafeContinuation<Void, Never>] = []
    }

    package let capabilities: Capabilities
    package let peerNetwork: UInt64?
    /// The runtime of the supervisor, if the connection shares it.
    private let home: VirtualRuntime?
    private let state = Locked(State())

    package init(_ capabilities: Capabilities, at home: VirtualRuntime? = nil, from network: UInt64? = nil) {
        self.capabilities = capabilities
        peerNetwork = network
        self.home = home
    }

    // MARK: For tests

    /// The payloads that were sent over the connection.
    package var sent: [Payload] { state.withLock { $0.sent } }
    /// The sent payloads as text.
    package var texts: [String] { sent.map { String(decoding: $0.bytes, as: UTF8.self) } }
    /// The number of received messages that the supervisor has confirmed.
    package var confirmed: Int { state.withLock { $0.confirmed } }
    package func confirm(_ count: Int) { state.withLock { $0.confirmed += count } }
    package var pings: Int { state.withLock { $0.pings } }
    package var reason: CloseReason? { state.withLock { $0.reason } }
    /// The number of received messages that were not taken yet.
    package var unread: Int { state.withLock { $0.inbox.count } }

    /// Answers pings after `time`, or never if it is `nil`.
    package func answerPings(_ time: Duration?) { state.withLock { $0.roundTrip = time } }

    /// Ends each message that is sent from now on with `outcome`.
    package func settle(_ outcome: SendOutcome) { state.withLock { $0.outcome = outcome } }

    /// Makes a close wait for ``finishClosing()`` from now on.
    package func closeSlowly() { state.withLock { $0.closesSlowly = true } }

    /// Makes a close report that `count` bytes may not have reached the peer.
    package func leaveUndelivered(_ count: Int) { state.withLock { $0.undelivered = count } }

    /// Completes all closes that wait.
    package func finishClosing() {
        let closes = state.withLock { state in
            state.closesSlowly = false
            defer { state.slowCloses = [] }
            return state.slowCloses
        }
        for close in closes { close.resume() }
    }

    /// Makes sent messages wait from now on, or ends their wait.
    package func block(_ isBlocked: Bool) {
        let waiting = state.withLock { state in
            state.isBlocked = isBlocked
            defer { if !isBlocked { state.blocked = [] } }
            return isBlocked ? [] : state.blocked
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Delivers a message from the peer.
    package func give(_ payload: Payload) {
        state.withLock { state in
            state.inbox.append(payload)
            return state.receiver.take()
        }?.resume()
        callLocalReceiver()
    }

    /// Calls the receiver on the connection's runtime, if one has requested a message.
    private func callLocalReceiver() {
        guard let localReceiver = state.withLock({ $0.localReceiver.take() }) else { return }
        home?.execute { [self] in
            if let arrival = next() { localReceiver.value.value.receive(arrival) }
        }
    }

    package func end(_ reason: CloseReason) {
        let waiting = state.withLock { state in
            if state.reason == nil { state.reason = reason }
            defer { (state.closers, state.blocked) = ([], []) }
            return state.closers + state.blocked + [state.receiver.take()].compactMap { $0 }
        }
        for continuation in waiting { continuation.resume() }
        callLocalReceiver()
    }

    // MARK: Connection

    package nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        if state.withLock({ $0.isBlocked && $0.reason == nil }) {
            await withUnsafeContinuation { continuation in
                let isFree = state.withLock { state in
                    guard state.isBlocked, state.reason == nil else { return true }
                    state.blocked.append(continuation)
                    return false
                }
                if isFree { continuation.resume() }
            }
        }
        return take(payload)
    }

    private func take(_ payload: Payload) -> SendOutcome {
        state.withLock { state in
            if let reason = state.reason {
                return .rejected(reason.error ?? TransportError(.closedByPeer, .open, "ended"))
            }
            state.sent.append(payload)
            return state.outcome
        }
    }

    package nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? {
        if let next = next() { return try next.get() }
        await withUnsafeContinuation { continuation in
            let isReady = state.withLock { state in
                guard state.inbox.isEmpty, state.reason == nil else { return true }
                state.receiver = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
        return try next()?.get()
    }

    private func next() -> Result<Payload?, TransportError>? {
        state.withLock { state in
            if !state.inbox.isEmpty { return .success(state.inbox.removeFirst()) }
            guard let reason = state.reason else { return nil }
            return reason.error.map { .failure($0) } ?? .success(nil)
        }
    }

    package nonisolated(nonsending) func ping() async throws(TransportError) -> Duration {
        let time = state.withLock { state in
            state.pings += 1
            return state.roundTrip
        }
        if let time { return time }
        _ = await closed()
        throw TransportError(.connectionLost, .open, "the connection has ended")
    }

    package nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int {
        end(reason)
        await withUnsafeContinuation { continuation in
            let isSlow = state.withLock { state in
                if state.closesSlowly { state.slowCloses.append(continuation) }
                return state.closesSlowly
            }
            if !isSlow { continuation.resume() }
        }
        return state.withLock { $0.undelivered }
    }

    package nonisolated(nonsending) func closed() async -> CloseReason {
        await withUnsafeContinuation { continuation in
            let isOver = state.withLock { state in
                if state.reason == nil { state.closers.append(continuation) }
                return state.reason != nil
            }
            if isOver { continuation.resume() }
        }
        return reason ?? .user
    }

    package nonisolated(nonsending) func statistics() async -> ConnectionStatistics { ConnectionStatistics() }
}

extension ScriptedConnection {
    package var isHere: Bool { home != nil }

    package func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>? {
        if let arrival = next() { return arrival }
        if let home { state.withLock { $0.localReceiver = RuntimeBound(Box(receiver), to: home) } }
        return nil
    }

    package func abandon(_ reason: CloseReason) { end(reason) }

    package func sendUnlessWaiting(_ payload: Payload) -> SendOutcome? {
        state.withLock { $0.isBlocked } ? nil : take(payload)
    }
}
