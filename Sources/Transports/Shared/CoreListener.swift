import SocketIO
import TransportAPI

/// What accepts below a ``CoreListener``: a listening socket, or the shared socket of a datagram server. Lives on its loop.
package protocol Acceptor: AnyObject {
    /// The port at which clients reach it.
    var port: UInt16? { get }
    /// Stops accepting; with `endLinks`, says goodbye to the clients it has.
    func close(endLinks: Bool)
}

/// The public face of an acceptor.
package final class CoreListener: Listener {
    package let endpoint: Endpoint
    private let loop: EventLoop
    private let acceptor: LoopConfined<Box<any Acceptor>>
    private let queue: LoopConfined<AcceptQueue>
    private let ownsLinks: Bool

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
                let queue = AcceptQueue(observer: mode.observer)
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
        self.acceptor = LoopConfined(living: Box(acceptor), on: loop)
        self.queue = LoopConfined(living: queue, on: loop)
        ownsLinks = mode.behaves
    }

    deinit {
        loop.execute { [acceptor, queue, ownsLinks] in
            acceptor.value.value.close(endLinks: ownsLinks)
            queue.value.close()
        }
    }

    package nonisolated(nonsending) func accept() async throws(TransportError) -> (any Link)? {
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

    private nonisolated(nonsending) func acceptElsewhere() async -> Result<(any Link)?, TransportError> {
        await withTaskExecutorPreference(loop) {
            do throws(TransportError) { return .success(try await self.accept()) } catch { return .failure(error) }
        }
    }

    package nonisolated(nonsending) func close() async {
        guard loop.isCurrent else { return await withTaskExecutorPreference(loop) { await self.close() } }
        acceptor.value.value.close(endLinks: ownsLinks)
        queue.value.close()
    }
}
