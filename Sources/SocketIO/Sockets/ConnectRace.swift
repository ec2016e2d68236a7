import CSocketIO
import Primitives

extension StreamSocket {
    /// Opens a TCP connection. It resolves the name outside the loop, and then tries the addresses (RFC 8305), each 250
    /// ms after the one before. Cancelling the task ends the attempt at once.
    ///
    /// - Parameters:
    ///   - host: a name or a numeric address.
    ///   - port: the port.
    ///   - loop: the loop of the connection.
    ///   - deadline: when to give up, in nanoseconds of ``MonotonicClock``.
    @concurrent
    package static func connect(
        to host: String,
        port: UInt16,
        on loop: EventLoop,
        deadline: Int64
    ) async throws(ConnectError) -> LoopBound<StreamSocket> {
        let addresses = try await Resolver.resolve(host, port: port, on: loop, deadline: deadline)
        let race = LoopBound(ConnectRace(HappyEyeballs.order(addresses), on: loop, deadline: deadline), to: loop)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.execute { race.value.start { continuation.resume(returning: $0) } }
            }
        } onCancel: {
            loop.execute { race.value.finish(.failure(.cancelled)) }
        }
        return try result.get()
    }
}

/// One race of connection attempts. It is used on its loop only.
final class ConnectRace {
    typealias Outcome = Result<LoopBound<StreamSocket>, ConnectError>

    private let loop: EventLoop
    private let deadline: Int64
    private var untried: ArraySlice<SocketAddress>
    private var attempts: [Attempt] = []
    private var firstError: SystemError?
    private var timers: [UInt64] = []
    private var outcome: Outcome?
    private var completion: ((Outcome) -> Void)?

    init(_ addresses: [SocketAddress], on loop: EventLoop, deadline: Int64) {
        untried = addresses[...]
        self.loop = loop
        self.deadline = deadline
    }

    func start(_ completion: @escaping (Outcome) -> Void) {
        // The task may have been cancelled before.
        if let outcome { return completion(outcome) }
        self.completion = completion
        timers.append(loop.schedule(at: deadline) { [self] in finish(.failure(.timedOut(resolving: false))) })
        tryNext()
    }

    /// Ends the race. Only the first call has an effect.
    func finish(_ outcome: Outcome) {
        guard self.outcome == nil else { return }
        self.outcome = outcome
        for attempt in attempts { attempt.abandon() }
        for timer in timers { loop.cancel(timer: timer) }
        attempts = []
        completion?(outcome)
        completion = nil
    }

    private func tryNext() {
        while outcome == nil, let address = untried.popFirst() {
            do throws(SystemError) {
                attempts.append(try Attempt(address, self, loop))
                guard !untried.isEmpty else { return }
                timers.append(loop.schedule(at: loop.now + HappyEyeballs.stagger) { [self] in tryNext() })
                return
            } catch {
                note(error)
            }
        }
        giveUpIfAllFailed()
    }

    private func note(_ error: SystemError) {
        if firstError == nil { firstError = error }
    }

    private func giveUpIfAllFailed() {
        guard outcome == nil, attempts.isEmpty, untried.isEmpty else { return }
        finish(.failure(.system(firstError ?? SystemError("connect", ECONNREFUSED))))
    }

    fileprivate func ended(_ attempt: Attempt, _ error: Int32) {
        guard outcome == nil else { return }
        guard error != 0 else {
            attempts.removeAll { $0 === attempt }
            if let descriptor = attempt.release() {
                finish(.success(LoopBound(StreamSocket(descriptor, on: loop), to: loop)))
            }
            return
        }
        note(SystemError("connect", error))
        attempt.abandon()
        attempts.removeAll { $0 === attempt }
        // After a failure, the next attempt does not wait for its delay.
        tryNext()
    }
}

/// One connection attempt of a race.
private final class Attempt: PollHandler {
    private unowned let race: ConnectRace
    private let loop: EventLoop
    private var descriptor: Descriptor?
    private var token: UInt64?

    init(_ address: SocketAddress, _ race: ConnectRace, _ loop: EventLoop) throws(SystemError) {
        self.race = race
        self.loop = loop
        let socket = try Platform.socket(family: address.family, type: Platform.streamSocket)
        let raw = socket.raw
        descriptor = consume socket
        let result = address.withPointer { csocketio_connect(raw, $0, $1) }
        guard result == 0 || errno == EINPROGRESS || errno == EINTR else { throw SystemError("connect") }
        // The poller reports a connection as writable even if it is open at once.
        token = try loop.watch(raw, self)
    }

    func ready(_ readiness: Readiness) {
        guard readiness.contains(.write), let raw = descriptor?.raw else { return }
        race.ended(self, Platform.pendingError(raw))
    }

    /// Returns the connection and gives up its ownership.
    func release() -> Descriptor? {
        unwatch()
        return descriptor.take()
    }

    func abandon() {
        unwatch()
        descriptor = nil
    }

    private func unwatch() {
        guard let raw = descriptor?.raw, let token else { return }
        loop.unwatch(raw, token)
        self.token = nil
    }
}
