import NIOCore
import NIOPosix
import TransportAPI

extension Recipe {
    static let tcpNIOAsync = Recipe(name: "swift-nio NIOAsyncChannel", workload: .tcpRoundTrip) {
        try NIOAsyncRoundTrip<NIOFramed>($0)
    }
    static let webSocketNIOAsync = Recipe(name: "swift-nio NIOAsyncChannel", workload: .webSocketRoundTrip) {
        try NIOAsyncRoundTrip<NIOFrames>($0)
    }
}

/// Ping-pong between two tasks, each with a `NIOAsyncChannel`, like the clients and servers in swift-nio's own
/// examples.
final class NIOAsyncRoundTrip<Wire: NIOWire>: Contender {
    private typealias Messages = NIOAsyncChannel<Wire.Message, Wire.Message>

    private let port: Int
    private let serving: Task<Void, any Error>

    init(_ stage: Stage) throws {
        try NIOPlaces.prepare(stage)
        let listener = try blocking {
            try await NIOPlaces.serverBootstrap().bind(host: "127.0.0.1", port: 0) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try Wire.configureServer(channel) { try Messages(wrappingChannelSynchronously: $0) }
                }
            }
        }
        port = listener.channel.localAddress?.port ?? 0
        serving = Self.serving(listener)
    }

    private typealias Listener = NIOAsyncChannel<EventLoopFuture<Messages>, Never>

    private static func serving(_ listener: Listener) -> Task<Void, any Error> {
        Task { () async throws -> Void in try await NIOAsyncRoundTrip<Wire>.serve(listener) }
    }

    private static func serve(_ listener: Listener) async throws {
        try await listener.executeThenClose { clients in
            try await withThrowingDiscardingTaskGroup { group in
                for try await client in clients { group.addTask { try? await answer(try await client.get()) } }
            }
        }
    }

    private static func answer(_ client: Messages) async throws {
        try await client.executeThenClose { inbound, outbound in
            for try await message in inbound { try await outbound.write(Wire.answer(message)) }
        }
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        try blocking { [port] in
            let upgrade = try await NIOPlaces.clientBootstrap().connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try Wire.configureClient(channel) { try Messages(wrappingChannelSynchronously: $0) }
                }
            }
            return try await upgrade.get().executeThenClose { inbound, outbound in
                var masks = RandomSource.seeded(1)
                var answers = inbound.makeAsyncIterator()
                var trips = RoundTrips(size: Workload.roundTripSize, nanoseconds: nanoseconds)
                repeat {
                    try await outbound.write(Wire.message(trips.message.bytes, &masks))
                    guard let answer = try await answers.next() else {
                        throw WrongResult(description: "the channel has ended")
                    }
                    let content = Wire.content(answer)
                    guard try content.withUnsafeReadableBytes({ try trips.answered($0) }) else { break }
                } while true
                return try trips.median()
            }
        }
    }

    func close() { serving.cancel() }
}
