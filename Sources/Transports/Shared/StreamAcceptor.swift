import SocketIO
import TransportAPI

/// Accepts TCP connections and runs a server core over each. Lives on its loop.
package final class StreamAcceptor: PollHandler, Acceptor {
    /// How many clients may be connected at once; further ones wait in the kernel's backlog.
    static var maximumConnections: Int { 65_536 }

    private let loop: EventLoop
    private let socket: ListeningSocket
    private let limits: LinkLimits
    private let makeCore: () -> any ProtocolCore
    private let handler: any LinkHandler
    private let queue: AcceptQueue
    private var live: [ObjectIdentifier: LinkDriver] = [:]
    private var isClosed = false
    private var retry: UInt64?

    package init(
        _ address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        limits: LinkLimits,
        handler: any LinkHandler,
        makeCore: @escaping () -> any ProtocolCore
    ) throws(SystemError) {
        socket = try ListeningSocket(boundTo: address, on: loop)
        self.loop = loop
        self.limits = limits
        self.handler = handler
        self.queue = queue
        self.makeCore = makeCore
        try socket.attach(self)
        queue.onRoom = { [self] in acceptWhilePossible() }
    }

    package var port: UInt16? { socket.local?.port }

    package func ready(_: Readiness) {
        acceptWhilePossible()
    }

    private func acceptWhilePossible() {
        while !isClosed, queue.hasRoom, live.count < Self.maximumConnections {
            do throws(SystemError) {
                guard let stream = try socket.accept() else { return }
                adopt(stream)
            } catch {
                return retryLater()
            }
        }
    }

    private func adopt(_ stream: StreamSocket) {
        let driver = LinkDriver(makeCore(), over: StreamChannel(stream), on: loop, limits: limits)
        driver.handler = handler
        live[ObjectIdentifier(driver)] = driver
        driver.onClosed = { [self] driver in forget(driver) }
        driver.start()
    }

    private func forget(_ driver: LinkDriver) {
        let wasFull = live.count == Self.maximumConnections
        live[ObjectIdentifier(driver)] = nil
        if wasFull { acceptWhilePossible() }
    }

    /// The process is out of descriptors, most likely. The poller won't report the waiting connection again, so ask anew
    /// before long.
    private func retryLater() {
        guard retry == nil else { return }
        retry = loop.schedule(at: loop.now + 100_000_000) { [self] in
            retry = nil
            acceptWhilePossible()
        }
    }

    package func close(endLinks: Bool) {
        guard !isClosed else { return }
        isClosed = true
        queue.onRoom = nil
        if let retry { loop.cancel(timer: retry) }
        socket.close()
        guard endLinks else { return }
        for driver in live.values { driver.beginClose(.user) }
    }
}
