import Protocols
import SocketIO
import TransportAPI

/// What accepts below a ``CoreListener``: a listening socket, or the shared socket of a datagram server. Lives on its loop.
package protocol Acceptor: AnyObject {
    /// The port at which clients reach it.
    var port: UInt16? { get }
    /// Stops accepting; with `endConnections`, closes the connections that it has.
    func close(endConnections: Bool)
    /// Whether it has no connection any more.
    var isEmpty: Bool { get }
    /// The callers that wait for that. The acceptor resumes them when its last connection is closed.
    var emptyWaiters: EmptyWaiters { get set }
    /// Counts what its connections keep for a total that others share.
    func join(_ total: BufferedTotal)
}

extension Acceptor {
    /// An acceptor that counts nothing joins no total.
    package func join(_: BufferedTotal) {}
}

/// The public face of an acceptor.
package final class CoreListener: BufferingListener {
    package let endpoint: Endpoint
    private let loop: EventLoop
    private let acceptor: LoopBound<Box<any Acceptor>>
    private let queue: LoopBound<AcceptQueue>
    private let ownsConnections: Bool

    /// Starts listening at `endpoint`, whose port may be 0 or missing to let the system choose.
    ///
    /// - Parameter start: opens the socket; called on the loop.
    package nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        on loop: EventLoop,
        mode: ServerMode,
        start: @escaping @Sendable (SocketAddress, AcceptQueue) throws(SystemError) -> any Acceptor
    ) async throws(TransportError) -> CoreListener {
        let deadline = MonotonicClock.now() + 10_000_000_000
        return try await running(on: loop) { () async throws(TransportError) in
            let addresses: [SocketAddress]
            do throws(ConnectError) {
                addresses = try await Resolver.resolve(
                    endpoint.host,
                    port: endpoint.port ?? 0,
                    on: loop,
                    deadline: deadline
                )
            } catch {
                throw TransportError(error)
            }
            guard let address = addresses.first else {
                throw TransportError(.nameNotFound, .resolve, "\(endpoint.host) has no address")
            }
            do throws(SystemError) {
                let queue = AcceptQueue(observer: mode.observer, on: loop)
                return CoreListener(endpoint, try start(address, queue), queue, mode, loop)
            } catch {
                throw TransportError(error, .connect)
            }
        }
    }

    /// The face of `acceptor`, which listens already. To be called on the loop.
    init(
        _ endpoint: Endpoint,
        _ acceptor: any Acceptor,
        _ queue: AcceptQueue,
        _ mode: ServerMode,
        _ loop: EventLoop
    ) {
        var endpoint = endpoint
        endpoint.port = acceptor.port
        self.endpoint = endpoint
        self.loop = loop
        self.acceptor = LoopBound(living: Box(acceptor), on: loop)
        self.queue = LoopBound(living: queue, on: loop)
        ownsConnections = mode.behaves
    }

    deinit {
        loop.execute { [acceptor, queue, ownsConnections] in
            acceptor.value.value.close(endConnections: ownsConnections)
            queue.value.close()
        }
    }

    package nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)? {
        guard let here = queue.here else { return try await acceptElsewhere().get() }
        if let next = here.next() { return try next.get() }
        let id = here.newID()
        return try await suspending(on: queue, as: id, #isolation) {
            $0.wait(id, $1)
        } onCancel: {
            $0.cancel($1)
        } elsewhere: {
            await acceptElsewhere()
        }.get()
    }

    private nonisolated(nonsending) func acceptElsewhere() async -> Result<(any Connection)?, TransportError> {
        await withTaskExecutorPreference(loop) {
            do throws(TransportError) { return .success(try await self.accept()) } catch { return .failure(error) }
        }
    }

    package func join(_ total: RuntimeBound<BufferedTotal>) {
        guard total.runtime === loop else { return }
        loop.execute { [acceptor] in acceptor.value.value.join(total.value) }
    }

    package nonisolated(nonsending) func close() async {
        guard loop.isCurrent else { return await withTaskExecutorPreference(loop) { await self.close() } }
        acceptor.value.value.close(endConnections: ownsConnections)
        queue.value.close()
        guard ownsConnections else { return }
        let id = acceptor.value.value.emptyWaiters.newID()
        await suspending(on: acceptor, as: id, #isolation) {
            (acceptor, continuation: UnsafeContinuation<Void, Never>) in
            let acceptor = acceptor.value
            if acceptor.isEmpty { continuation.resume() } else { acceptor.emptyWaiters.append(id, continuation) }
        } onCancel: {
            $0.value.emptyWaiters.cancel($1)
        } elsewhere: {
        }
    }
}

/// The callers that wait until an acceptor has no connection any more. Lives on the acceptor's loop.
package struct EmptyWaiters {
    private var waiting: [UInt64: UnsafeContinuation<Void, Never>] = [:]
    private var lastID: UInt64 = 0

    mutating func newID() -> UInt64 {
        lastID += 1
        return lastID
    }

    mutating func append(_ id: UInt64, _ continuation: UnsafeContinuation<Void, Never>) {
        waiting[id] = continuation
    }

    /// This caller waits no longer.
    mutating func cancel(_ id: UInt64) {
        waiting.removeValue(forKey: id)?.resume()
    }

    /// The acceptor has no connection any more.
    mutating func resumeAll() {
        let all = waiting
        waiting = [:]
        for continuation in all.values { continuation.resume() }
    }
}
