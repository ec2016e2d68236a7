import Protocols
import SocketIO
import TransportAPI

/// The addresses of the host that an attempt connects to: the server, or its proxy.
///
/// The connections to them race until one is complete, TLS included. The protocol's handshake then goes out over that one
/// alone. If it is reset, or silent for its share of the time, the race continues with the other addresses. Lives on its
/// loop.
final class AddressAttempts {
    private let race: LoopBound<ConnectRace>
    private let loop: EventLoop
    /// Host and port, for errors.
    private let place: String
    private let isProxy: Bool
    /// When the whole attempt ends, in nanoseconds of ``MonotonicClock``.
    private let deadline: Int64
    private let hasOthers: Bool
    /// The hint about a server that ends the connection, or is silent, before it has sent anything.
    let unanswered: UnansweredHint
    /// The errors so far, each with its address.
    private var errors: [(address: SocketAddress, error: TransportError)] = []
    /// How many failures of the race are among them.
    private var known = 0

    private init(
        _ race: ConnectRace,
        at place: String,
        isProxy: Bool,
        hasOthers: Bool,
        _ unanswered: UnansweredHint,
        on loop: EventLoop,
        deadline: Int64
    ) {
        self.unanswered = unanswered
        self.race = LoopBound(race, to: loop)
        (self.place, self.isProxy, self.hasOthers, self.loop) = (place, isProxy, hasOthers, loop)
        self.deadline = deadline
    }

    /// Resolves the name of the host, and prepares TLS to it. Call this on the loop.
    ///
    /// - Parameters:
    ///   - tls: TLS to the host; `nil` for plain connections.
    ///   - isProxy: Whether the host is a proxy, for errors.
    ///   - unanswered: What to say about a server that sends nothing.
    nonisolated(nonsending) static func resolve(
        _ host: String,
        port: UInt16,
        tls: ClientTLS?,
        isProxy: Bool,
        _ unanswered: UnansweredHint,
        on loop: EventLoop,
        deadline: Int64
    ) async throws(TransportError) -> AddressAttempts {
        let place = HTTPSyntax.authority(host: host, port: port)
        let addresses: [SocketAddress]
        do throws(ConnectError) {
            addresses = try await Resolver.resolve(host, port: port, on: loop, deadline: deadline)
        } catch {
            let failure = TransportError(error, at: place)
            throw isProxy ? failure.ofProxy : failure
        }
        let secure = try await tls?.load(on: loop, deadline: deadline)
        let ordered = loop.failedAddresses.order(addresses, at: loop.now)
        return AddressAttempts(
            ConnectRace(ordered, on: loop, secure: secure),
            at: place,
            isProxy: isProxy,
            hasOthers: addresses.count > 1,
            unanswered,
            on: loop,
            deadline: deadline
        )
    }

    /// Connects to the address that is first. The TLS handshake with it is complete.
    ///
    /// - Throws: The error of all addresses.
    nonisolated(nonsending) func next() async throws(TransportError) -> any ByteChannel {
        let outcome = await ConnectRace.run(race, deadline: deadline)
        noteFailures()
        switch outcome {
        case .plain(let socket): return socket.value
        case .secured(let stream): return stream.value
        case .cancelled: throw .cancelled(.connect)
        case .failed: throw whole(errors.last?.error ?? .timedOut(at: place))
        }
    }

    /// Until when the handshake over the last connection may be silent, in nanoseconds of ``MonotonicClock``: an equal share
    /// of the time that is left.
    var share: Int64 {
        let left = max(0, deadline - MonotonicClock.now())
        return deadline - left + left / Int64(race.value.remaining + 1)
    }

    /// The action at the end of a connection whose peer has sent nothing; `nil` if the host has no other address.
    var whenMute: (() -> Void)? {
        guard hasOthers, let address = race.value.winner else { return nil }
        return { [loop] in loop.failedAddresses.failed(address, at: loop.now) }
    }

    /// The protocol's handshake over the last connection is complete.
    func succeeded() {
        if let address = race.value.winner { loop.failedAddresses.worked(address) }
    }

    /// The protocol's handshake over the last connection has failed. Returns if another address is to be tried.
    ///
    /// - Throws: The error of all addresses, if there is no other one, or if the error is an answer.
    func failed(_ error: TransportError) throws(TransportError) {
        guard let address = race.value.winner, error.isWithoutAnswer else { throw whole(error) }
        if hasOthers { loop.failedAddresses.failed(address, at: loop.now) }
        errors.append((address, error))
        guard race.value.remaining > 0, MonotonicClock.now() < deadline else { throw whole(error) }
    }

    private func noteFailures() {
        for failure in race.value.failures[known...] {
            if hasOthers { loop.failedAddresses.failed(failure.address, at: loop.now) }
            var error = error(failure)
            error.origin = .path
            errors.append((failure.address, error))
        }
        known = race.value.failures.count
    }

    private func error(_ failure: AddressFailure) -> TransportError {
        guard !isProxy else { return proxyError(failure) }
        let error = serverError(failure)
        switch failure.progress {
        case .unanswered: return unanswered.added(to: error)
        // Only a connection that was accepted can be reset.
        case .connecting where error.code == .connectionReset: return unanswered.added(to: error)
        case .connecting, .answered: return error
        }
    }

    private func serverError(_ failure: AddressFailure) -> TransportError {
        let isConnecting = failure.progress == .connecting
        switch failure.cause {
        case .failed(let error) where isConnecting: return TransportError(error, .connect, at: place)
        case .failed(let error): return TransportError(error, .secure, at: failure.address.description)
        case .insecure(let failure): return TransportError(failure, wasOpen: false)
        case .ended: return TransportError(.connectionLost, .secure, "the connection ended")
        case .silent where isConnecting: return .timedOut(at: place)
        case .silent: return TransportError(.timedOut, .secure, "the TLS handshake was not complete in time")
        }
    }

    private func proxyError(_ failure: AddressFailure) -> TransportError {
        let isConnecting = failure.progress == .connecting
        switch failure.cause {
        case .failed(let error): return TransportError(error, .connect, at: isConnecting ? place : nil).ofProxy
        case .insecure(let failure): return .insecureProxy(failure)
        case .ended: return .proxyEnded
        case .silent: return isConnecting ? TransportError.timedOut(at: place).ofProxy : .proxySilent
        }
    }

    /// Returns the error of the attempt: an answer of an address, or else the error of the one that got furthest. If others
    /// have failed in other ways, the reason says how.
    private func whole(_ last: TransportError) -> TransportError {
        func weight(_ error: TransportError) -> Int {
            let phases = TransportError.Phase.allCases
            return (error.isWithoutAnswer ? 0 : phases.count) + (phases.firstIndex(of: error.phase) ?? 0)
        }
        var error = last
        if last.isWithoutAnswer {
            for other in errors.map(\.error) where weight(other) > weight(error) { error = other }
        }
        let others = errors.filter { $0.error.code != error.code }.prefix(3)
        if !others.isEmpty {
            error.reason +=
                " (also tried: \(others.map { "\($0.address): \($0.error.reason)" }.joined(separator: "; ")))"
        }
        return error
    }
}

extension TransportError {
    /// The error for a host that did not answer in time.
    fileprivate static func timedOut(at place: String) -> TransportError {
        TransportError(ConnectError.timedOut(resolving: false), at: place)
    }

    /// Whether the peer has reset or ended the connection without an answer, or has sent none in time. Only then may another
    /// address of the same host be better.
    var isWithoutAnswer: Bool {
        switch code {
        case .connectionReset, .connectionLost, .closedByPeer, .refused, .unreachable: true
        // 408 and 504 are answers of HTTP.
        case .timedOut: detail != 408 && detail != 504
        default: false
        }
    }
}
