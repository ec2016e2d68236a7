import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The object that accepts connections for a ``CoreListener``: a listening socket, or the shared socket of a datagram
/// server. Lives on its loop.
package protocol Acceptor: AnyObject {
    /// The port at which clients reach it.
    var port: UInt16? { get }
    /// Stops accepting. With `endConnections`, also closes the accepted connections.
    func close(endConnections: Bool)
    /// Whether no accepted connection is left.
    var isEmpty: Bool { get }
    /// The callers that wait until it is empty. The acceptor resumes them when its last connection is closed.
    var emptyWaiters: Waiters<Void> { get set }
    /// Counts the memory that its connections buffer towards a total that it shares with others.
    func join(_ total: BufferedTotal)
}

extension Acceptor {
    /// By default an acceptor counts nothing and joins no total.
    package func join(_: BufferedTotal) {}
}

/// The public interface of an acceptor.
package final class CoreListener: LocalListener {
    package let endpoint: Endpoint
    private let loop: EventLoop
    private let acceptor: LoopBound<Box<any Acceptor>>
    private let queue: LoopBound<AcceptQueue>
    private let ownsConnections: Bool

    /// Starts listening at `endpoint`. If its port is 0 or missing, the system chooses one.
    ///
    /// - Parameter start: Opens the socket. Called on the loop.
    package nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        on loop: EventLoop,
        serving: Serving,
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
                let queue = AcceptQueue(observer: serving.observer, on: loop)
                return CoreListener(endpoint, try start(address, queue), queue, serving, loop)
            } catch {
                throw TransportError(error, .connect)
            }
        }
    }

    /// Creates the listener for `acceptor`, which listens already. Call this on the loop.
    init(
        _ endpoint: Endpoint,
        _ acceptor: any Acceptor,
        _ queue: AcceptQueue,
        _ serving: Serving,
        _ loop: EventLoop
    ) {
        var endpoint = endpoint
        endpoint.port = acceptor.port
        self.endpoint = endpoint
        self.loop = loop
        self.acceptor = LoopBound(Box(acceptor), to: loop)
        self.queue = LoopBound(queue, to: loop)
        ownsConnections = serving.handlesMessages
    }

    deinit {
        loop.execute { [acceptor, queue, ownsConnections] in
            acceptor.value.value.close(endConnections: ownsConnections)
            queue.value.close()
        }
    }

    package nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)? {
        try await queue.suspend(with: WaitID.next(), #isolation) {
            $0.wait($1, $2)
        } onCancel: {
            $0.cancel($1)
        }.get()
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
        await acceptor.suspend(with: WaitID.next(), #isolation) {
            if $0.value.isEmpty { $2.resume() } else { $0.value.emptyWaiters.append($1, $2) }
        } onCancel: {
            $0.value.emptyWaiters.resume($1, returning: ())
        }
    }
}
