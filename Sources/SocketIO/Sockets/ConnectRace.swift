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
        let race = LoopBound(ConnectRace(HappyEyeballs.order(addresses), on: loop), to: loop)
        switch await ConnectRace.run(race, deadline: deadline) {
        case .plain(let socket): return socket
        case .cancelled: throw .cancelled
        case .secured: throw .system(SystemError("connect", EPROTO))
        case .failed(let failures):
            var first: SystemError?
            for failure in failures {
                switch failure.cause {
                case .silent: throw .timedOut(resolving: false)
                case .failed(let error): first = first ?? error
                case .ended, .insecure: break
                }
            }
            throw .system(first ?? SystemError("connect", ECONNREFUSED))
        }
    }
}

/// The reason why an address was given up.
package struct AddressFailure: Sendable {
    /// How far the connection had come.
    package enum Progress: Sendable {
        /// The TCP handshake was in progress.
        case connecting
        /// The TLS handshake was in progress, and the peer had sent nothing.
        case unanswered
        /// The TLS handshake was in progress, and the peer had sent something.
        case answered
    }

    /// The kinds of reasons.
    package enum Cause: Sendable {
        /// A system call has failed.
        case failed(SystemError)
        /// TLS has refused the peer, or the peer has refused TLS.
        case insecure(TLSFailure)
        /// The peer ended the connection during the TLS handshake.
        case ended
        /// There was no answer before the deadline.
        case silent
    }

    /// The address.
    package let address: SocketAddress
    /// How far the connection had come.
    package let progress: Progress
    /// The reason.
    package let cause: Cause
}

/// A race of connections to the addresses of a host, over TCP and, if the connection is encrypted, TLS (RFC 8305, section
/// 5). When an address fails, the next one is tried at once, also within the 10 ms that the section asks to wait. Only one
/// connection leaves the race at a time, so a protocol's handshake never goes out twice at once. If that handshake fails,
/// the race starts again with the other addresses. It is used on its loop only.
package final class ConnectRace {
    /// The end of one run.
    package enum Outcome: Sendable {
        /// The connection that was first.
        case plain(LoopBound<StreamSocket>)
        /// The connection whose TLS handshake was complete first.
        case secured(LoopBound<TLSStream>)
        /// All addresses have failed, or the deadline has passed.
        case failed([AddressFailure])
        /// The task was cancelled.
        case cancelled
    }

    fileprivate let loop: EventLoop
    /// Makes TLS over a connected socket, or returns `nil` without memory; `nil` for a plain connection.
    fileprivate let secure: ((any ByteChannel) -> TLSStream?)?
    private var untried: ArraySlice<SocketAddress>
    private var attempts: [Attempt] = []
    private var deadlineTimer: UInt64?
    /// The timer that starts the next attempt.
    private var nextTimer: UInt64?
    private var isCancelled = false
    private var completion: ((Outcome) -> Void)?
    /// The addresses that have failed in the race, in the order of their failures.
    package private(set) var failures: [AddressFailure] = []
    /// The address of the last connection that was first.
    package private(set) var winner: SocketAddress?

    /// Creates a race.
    ///
    /// - Parameters:
    ///   - addresses: The addresses in the order in which they are tried.
    ///   - loop: The loop of the connections.
    ///   - secure: Makes TLS over a connected socket, or returns `nil` if there is no memory. Without it, the connections
    ///     are plain.
    package init(
        _ addresses: [SocketAddress],
        on loop: EventLoop,
        secure: ((any ByteChannel) -> TLSStream?)? = nil
    ) {
        untried = addresses[...]
        self.loop = loop
        self.secure = secure
    }

    /// How many addresses neither have failed nor have left the race as a connection.
    package var remaining: Int { untried.count + attempts.count }

    /// Runs the race until one connection is complete. Cancelling the task ends the race at once.
    ///
    /// - Parameter deadline: When to give up, in nanoseconds of ``MonotonicClock``.
    package nonisolated(nonsending) static func run(_ race: LoopBound<ConnectRace>, deadline: Int64) async -> Outcome {
        await race.suspend(with: deadline, #isolation) { race, deadline, continuation in
            race.start(deadline) { continuation.resume(returning: $0) }
        } onCancel: { race, _ in
            race.isCancelled = true
            race.finish(.cancelled)
        }
    }

    private func start(_ deadline: Int64, _ completion: @escaping (Outcome) -> Void) {
        // The task may have been cancelled before.
        guard !isCancelled else { return completion(.cancelled) }
        self.completion = completion
        deadlineTimer = loop.schedule(at: deadline) { [self] in deadlineReached() }
        tryNext()
    }

    /// Ends the run. Only the first call has an effect. Addresses that have not failed stay in the race.
    private func finish(_ outcome: Outcome) {
        guard let completion else { return }
        self.completion = nil
        for attempt in attempts { attempt.abandon() }
        untried = attempts.map(\.address) + untried
        attempts = []
        for timer in [deadlineTimer, nextTimer] { if let timer { loop.cancel(timer: timer) } }
        (deadlineTimer, nextTimer) = (nil, nil)
        completion(outcome)
    }

    /// Starts the next attempt now, and schedules the one after it.
    private func tryNext() {
        if let timer = nextTimer.take() { loop.cancel(timer: timer) }
        while completion != nil, let address = untried.popFirst() {
            do throws(SystemError) {
                attempts.append(try Attempt(address, self))
                guard !untried.isEmpty else { return }
                nextTimer = loop.schedule(at: loop.now + HappyEyeballs.stagger) { [self] in tryNext() }
                return
            } catch {
                failures.append(AddressFailure(address: address, progress: .connecting, cause: .failed(error)))
            }
        }
        if attempts.isEmpty, untried.isEmpty { finish(.failed(failures)) }
    }

    private func deadlineReached() {
        // A failure that is there already is the reason.
        for attempt in attempts { attempt.look() }
        guard completion != nil else { return }
        for attempt in attempts {
            failures.append(AddressFailure(address: attempt.address, progress: attempt.progress, cause: .silent))
            attempt.abandon()
        }
        attempts = []
        finish(.failed(failures))
    }

    fileprivate func won(_ attempt: Attempt, _ outcome: Outcome) {
        attempts.removeAll { $0 === attempt }
        winner = attempt.address
        finish(outcome)
    }

    fileprivate func lost(
        _ attempt: Attempt,
        _ progress: AddressFailure.Progress,
        _ cause: AddressFailure.Cause
    ) {
        attempts.removeAll { $0 === attempt }
        failures.append(AddressFailure(address: attempt.address, progress: progress, cause: cause))
        // After a failure, the next attempt does not wait for its delay.
        tryNext()
    }
}

/// One connection of a race.
private final class Attempt: PollHandler, ScheduledHandler {
    private enum State {
        /// The TCP handshake is in progress.
        case connecting
        /// The TLS handshake is in progress.
        case securing(TLSStream)
        /// TLS has failed, and an alert may not have left yet. Closing at once could destroy it by a reset.
        case lingering(TLSStream, timer: UInt64)
        /// The connection has left the race or is closed.
        case done
    }

    /// How long a connection whose TLS has failed stays open at most, in nanoseconds.
    private static let lingerTime: Int64 = 2_000_000_000
    /// How many bytes it drops at most.
    private static let lingerBytes = 1 << 20

    let address: SocketAddress
    var schedule = ScheduleEntry()
    private let race: ConnectRace
    private let loop: EventLoop
    private var state = State.connecting
    private var descriptor: Descriptor?
    private var token: UInt64?
    private var dropped = 0

    init(_ address: SocketAddress, _ race: ConnectRace) throws(SystemError) {
        (self.address, self.race, loop) = (address, race, race.loop)
        let socket = try Platform.socket(family: address.family, type: Platform.streamSocket)
        let raw = socket.raw
        descriptor = consume socket
        let result = address.withPointer { csocketio_connect(raw, $0, $1) }
        guard result == 0 || errno == EINPROGRESS || errno == EINTR else { throw SystemError("connect") }
        // The poller reports a connection as writable even if it is open at once.
        token = try loop.watch(raw, self)
    }

    /// How far the connection has come.
    var progress: AddressFailure.Progress {
        guard case .securing(let stream) = state else { return .connecting }
        return stream.bytesReceived > 0 ? .answered : .unanswered
    }

    func ready(_ readiness: Readiness) {
        switch state {
        case .connecting: if readiness.contains(.write) { connected() }
        case .securing(let stream):
            stream.note(readiness)
            loop.add(self, to: .handshake)
        case .lingering(let stream, _):
            stream.note(readiness)
            drop(from: stream)
        case .done: break
        }
    }

    func run(_: LoopQueue) { look() }

    /// Takes the next step of the TLS handshake.
    func look() {
        guard case .securing(let stream) = state else { return }
        switch stream.advance() {
        case .ready:
            state = .done
            race.won(self, .secured(LoopBound(stream, to: loop)))
        case .again: loop.add(self, to: .handshake)
        case .waiting: break
        case .failed(let result):
            let progress = progress
            linger(stream)
            race.lost(self, progress, Self.cause(result))
        }
    }

    private static func cause(_ result: IOResult) -> AddressFailure.Cause {
        switch result {
        case .insecure(let failure): .insecure(failure)
        case .failed(let error): .failed(error)
        case .bytes, .wouldBlock, .end: .ended
        }
    }

    private func connected() {
        guard let raw = descriptor?.raw else { return }
        let error = Platform.pendingError(raw)
        unwatch()
        guard error == 0, let open = descriptor.take() else {
            abandon()
            return race.lost(self, .connecting, .failed(SystemError("connect", error)))
        }
        let socket = StreamSocket(open, on: loop)
        guard let secure = race.secure else {
            state = .done
            return race.won(self, .plain(LoopBound(socket, to: loop)))
        }
        guard let stream = secure(socket) else {
            socket.close(abort: true)
            state = .done
            return race.lost(self, .unanswered, .failed(SystemError("connect", ENOMEM)))
        }
        state = .securing(stream)
        do throws(SystemError) {
            try stream.attach(self)
        } catch {
            abandon()
            return race.lost(self, .unanswered, .failed(error))
        }
        look()
    }

    /// Closes the connection.
    func abandon() {
        switch state {
        case .connecting: unwatch()
        case .securing(let stream): stream.close(abort: true)
        case .lingering(let stream, let timer):
            loop.cancel(timer: timer)
            stream.close(abort: true)
        case .done: break
        }
        state = .done
        descriptor = nil
    }

    private func linger(_ stream: TLSStream) {
        let timer = loop.schedule(at: loop.now + Self.lingerTime) { [self] in abandon() }
        state = .lingering(stream, timer: timer)
        _ = stream.shutdownWriting()
        drop(from: stream)
    }

    /// Drops what the peer still sends, until it ends its side.
    private func drop(from stream: TLSStream) {
        let block = loop.takeBlock()
        defer { loop.giveBlock(block) }
        let target = UnsafeMutableRawBufferPointer(start: block, count: ScratchPool.blockSize)
        while dropped <= Self.lingerBytes {
            switch stream.read(into: target) {
            case .bytes(let count): dropped += count
            case .wouldBlock: return
            case .end, .failed, .insecure:
                return abandon()
            }
        }
        abandon()
    }

    private func unwatch() {
        guard let raw = descriptor?.raw, let token else { return }
        loop.unwatch(raw, token)
        self.token = nil
    }
}
