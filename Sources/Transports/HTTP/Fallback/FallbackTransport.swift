import Protocols
import SocketIO
import TransportAPI

/// A transport that connects over another one where the network blocks it: WebSocket, with messages over HTTP in its place.
///
/// An attempt over the preferred transport counts only once a ping was answered, because a middlebox can let an upgrade
/// pass and hold back what follows it (seen of an antivirus program: Engine.IO, issue 123, 2012). What has worked is
/// remembered until the network changes or ``FallbackSettings/retry`` is over.
struct FallbackTransport: Transport {
    let preferred: any Transport
    let other: any Transport
    let settings: FallbackSettings
    let loop: EventLoop
    /// Whether an open connection of the other transport may be replaced.
    private let mayReturn: Bool
    private let memory: Locked<Memory>

    /// What an earlier attempt has found.
    private struct Memory {
        /// The network in which it was found (``EventLoop/networkChanges``).
        var network = 0
        /// Until when the other transport is tried first, in nanoseconds of ``MonotonicClock``.
        var otherUntil: Int64 = .min
        /// Until when the other transport is not tried, because the server does not have it.
        var withoutUntil: Int64 = .min
        /// A connection of the preferred transport that replaces one of the other.
        var replacement: (any Connection)?
    }

    /// How long a server without the other transport is not asked again, in nanoseconds.
    private static let withoutTime: Int64 = 3_600_000_000_000
    /// The largest part of an attempt that the preferred transport gets.
    private static let largestShare: Duration = .seconds(5)

    init(
        _ preferred: any Transport,
        _ other: any Transport,
        _ settings: FallbackSettings,
        in context: ConnectionContext
    ) {
        (self.preferred, self.other, self.settings, loop) = (preferred, other, settings, context.loop)
        mayReturn = context.continuesSessions
        memory = Locked(Memory())
    }

    var endpoint: Endpoint { preferred.endpoint }
    var capabilities: Capabilities { preferred.capabilities }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        try await running(on: loop) { () async throws(TransportError) in try await attempt(timeout) }
    }

    private nonisolated(nonsending) func attempt(_ timeout: Duration) async throws(TransportError) -> any Connection {
        let clock = MonotonicClock.now()
        let deadline = Instant(nanoseconds: clock).advanced(by: max(.zero, timeout)).nanoseconds
        // In another network, a replacement is forgotten too.
        let known = recall(clock)
        if let replacement = memory.withLock({ $0.replacement.take() }) { return replacement }
        guard known.otherUntil > clock else {
            return try await connectPreferred(known.withoutUntil <= clock, timeout: timeout, until: deadline)
        }
        do throws(TransportError) {
            return try await openOther(until: deadline)
        } catch {
            guard error.isWithoutAnswer || error.isMissing else { throw error }
            memory.withLock { $0.otherUntil = .min }
            guard deadline > MonotonicClock.now() else { throw error }
            return try await open(preferred, until: deadline)
        }
    }

    /// Tries the preferred transport, and the other one if the network seems to block it.
    private nonisolated(nonsending) func connectPreferred(
        _ mayFallBack: Bool,
        timeout: Duration,
        until deadline: Int64
    ) async throws(TransportError) -> any Connection {
        guard mayFallBack else { return try await open(preferred, until: deadline) }
        let share = min(timeout / 2, Self.largestShare)
        let first: TransportError
        do throws(TransportError) {
            return try await proven(until: Instant(nanoseconds: MonotonicClock.now()).advanced(by: share).nanoseconds)
        } catch {
            guard error.mayBeBlocked else { throw error }
            first = error
        }
        do throws(TransportError) {
            let connection = try await openOther(until: deadline)
            let until = Instant(nanoseconds: MonotonicClock.now()).advanced(by: settings.retry).nanoseconds
            remember { $0.otherUntil = until }
            return connection
        } catch {
            if error.isMissing { remember { $0.withoutUntil = MonotonicClock.now() + Self.withoutTime } }
            if case .cancelled = error.code { throw error }
            var whole = first
            whole.reason += "; the fallback over HTTP failed too: \(error.reason)"
            throw whole
        }
    }

    /// Connects over the preferred transport, and waits for the answer to a ping.
    private nonisolated(nonsending) func proven(until deadline: Int64) async throws(TransportError) -> any Connection {
        let connection = try await open(preferred, until: deadline)
        do throws(TransportError) {
            try await answerPing(connection, until: deadline)
            return connection
        } catch {
            // The answer to the close frame may never come, and the time is the other transport's.
            Task(executorPreference: loop) { await connection.close(.user) }
            throw error
        }
    }

    /// Waits for the answer to a ping, at most until `deadline`.
    private nonisolated(nonsending) func answerPing(
        _ connection: any Connection,
        until deadline: Int64
    ) async throws(TransportError) {
        let loop = loop
        let isAnswered = try await running(on: loop) { () async throws(TransportError) in
            let ping = Task(executorPreference: loop) { () async -> TransportError? in
                do throws(TransportError) {
                    _ = try await connection.ping()
                    return nil
                } catch {
                    return error
                }
            }
            let timer = loop.schedule(at: deadline) { ping.cancel() }
            let error = await withTaskCancellationHandler {
                await ping.value
            } onCancel: {
                ping.cancel()
            }
            loop.cancel(timer: timer)
            if let error, error.code != .cancelled { throw error }
            return error == nil
        }
        guard !isAnswered else { return }
        guard !Task.isCancelled else { throw .cancelled(.handshake) }
        throw TransportError(.timedOut, .handshake, "a ping after the handshake was not answered in time")
    }

    private nonisolated(nonsending) func openOther(until deadline: Int64) async throws(TransportError) -> any Connection
    {
        let connection = try await open(other, until: deadline)
        if mayReturn, let local = connection as? any LocalConnection { watch(local) }
        return connection
    }

    /// Tries the preferred transport again, beside the open connection of the other one, until that one has ended. When it
    /// works, its connection is the next one of the session. Call this on the loop.
    private func watch(_ connection: any LocalConnection) {
        let trial = Task(executorPreference: loop) {
            while true {
                let due = Instant(nanoseconds: MonotonicClock.now()).advanced(by: settings.retry).nanoseconds
                await LoopPause.until(due, on: loop)
                guard !Task.isCancelled else { return }
                let deadline = Instant(nanoseconds: MonotonicClock.now()).advanced(by: Self.largestShare).nanoseconds
                guard let better = try? await proven(until: deadline) else { continue }
                guard !Task.isCancelled else {
                    await better.close(.user)
                    return
                }
                memory.withLock { ($0.replacement, $0.otherUntil) = (better, .min) }
                let reason = "\(preferred.endpoint.scheme):// works again, and replaces the connection over HTTP"
                return connection.abandon(CloseReason(TransportError(.connectionLost, .open, reason)))
            }
        }
        Task(executorPreference: loop) {
            _ = await connection.closed()
            trial.cancel()
        }
    }

    private nonisolated(nonsending) func open(
        _ transport: any Transport,
        until deadline: Int64
    ) async throws(TransportError) -> any Connection {
        try await transport.connect(timeout: .nanoseconds(max(0, deadline - MonotonicClock.now())))
    }

    /// What is known about the current network.
    private func recall(_ now: Int64) -> Memory {
        let network = loop.networkChanges
        return memory.withLock { memory in
            if memory.network != network { memory = Memory(network: network) }
            return memory
        }
    }

    private func remember(_ change: (inout Memory) -> Void) {
        memory.withLock { change(&$0) }
    }
}

extension TransportError {
    /// Whether a middlebox may have prevented a WebSocket, so that ordinary requests may pass. An error of TLS, an answer
    /// about credentials from a verified server, and a close by the server are not.
    fileprivate var mayBeBlocked: Bool {
        guard tlsProblem == nil, phase == .handshake || phase == .open else { return false }
        switch code {
        case .authenticationFailed, .forbidden: return origin != .peer
        case .handshakeFailed, .notFound, .timedOut, .connectionReset, .connectionLost, .serverUnavailable: return true
        case .protocolViolation: return true
        default: return false
        }
    }

    /// Whether the server does not have the fallback.
    fileprivate var isMissing: Bool { code == .notFound || code == .handshakeFailed }
}
