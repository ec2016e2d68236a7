import Measuring
import NIOCore
import NIOPosix

/// The event loops of swift-nio's contenders: one thread for each side, on the same cores as ours.
enum NIOPlaces {
    private static let client = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private static let server = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// Pins both threads to their cores. Must be called before anything else here, and not from a task.
    static func prepare(_ stage: Stage) throws {
        guard let placement = stage.placement else { return }
        for (group, core) in [(client, placement.near), (server, placement.far)] {
            try group.next().submit { _ = CoreMask(only: core).applyToThisThread() }.wait()
        }
    }

    /// The server's side.
    static func serverBootstrap() -> ServerBootstrap {
        ServerBootstrap(group: server).childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
    }

    /// The client's side.
    static func clientBootstrap() -> ClientBootstrap {
        ClientBootstrap(group: client).channelOption(.tcpOption(.tcp_nodelay), value: 1)
    }

    /// Connects two channels. `accepted` prepares the server's channel, `connected` the client's.
    static func connect<Wire: NIOWire, Near: Sendable, Far: Sendable>(
        _ stage: Stage,
        over _: Wire.Type,
        accepted: @escaping @Sendable (any Channel) throws -> Far,
        connected: @escaping @Sendable (any Channel) throws -> Near
    ) throws -> (near: Near, far: Far, channel: any Channel) {
        try prepare(stage)
        let arrival = server.next().makePromise(of: Far.self)
        let listener = try serverBootstrap()
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try Wire.configureServer(channel, accepted).cascade(to: arrival)
                }
            }
            .bind(host: "127.0.0.1", port: 0).wait()
        let port = listener.localAddress?.port ?? 0
        let (near, channel) = try blocking {
            let (upgrade, channel) = try await clientBootstrap().connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture { (try Wire.configureClient(channel, connected), channel) }
            }
            return (try await upgrade.get(), channel)
        }
        let far = try arrival.futureResult.wait()
        try listener.close().wait()
        return (near, far, channel)
    }
}
