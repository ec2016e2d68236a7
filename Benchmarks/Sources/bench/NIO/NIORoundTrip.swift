import NIOCore
import Reporting
import TransportAPI

extension Recipe {
    static let tcpNIO = Recipe(name: "swift-nio handlers", workload: .tcpRoundTrip) {
        try NIORoundTrip<NIOFramed>($0)
    }
    static let tlsNIO = Recipe(name: "swift-nio-ssl handlers", workload: .tlsRoundTrip) {
        try NIORoundTrip<NIOEncrypted>($0)
    }
    static let webSocketNIO = Recipe(name: "swift-nio handlers", workload: .webSocketRoundTrip) {
        try NIORoundTrip<NIOFrames>($0)
    }
}

/// Ping-pong between two channel handlers.
final class NIORoundTrip<Wire: NIOWire>: Contender {
    private let asking: Asking<Wire>
    private let channel: any Channel

    init(_ stage: Stage) throws {
        let ends = try NIOPlaces.connect(
            stage,
            over: Wire.self,
            accepted: { try $0.pipeline.syncOperations.addHandler(Answering<Wire>()) },
            connected: { channel in
                let asking = Asking<Wire>(on: channel.eventLoop)
                try channel.pipeline.syncOperations.addHandler(asking)
                return asking
            }
        )
        (asking, channel) = (ends.near, ends.channel)
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        try channel.eventLoop.flatSubmit { [asking] in asking.begin(nanoseconds) }.wait()
    }

    func close() { try? channel.close().wait() }
}

/// Sends each message back, and flushes once for all messages of a read.
private final class Answering<Wire: NIOWire>: ChannelInboundHandler {
    typealias InboundIn = Wire.Message
    typealias OutboundOut = Wire.Message

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.write(Self.wrapOutboundOut(Wire.answer(Self.unwrapInboundIn(data))), promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }
}

private final class Asking<Wire: NIOWire>: ChannelInboundHandler, @unchecked Sendable {
    // Unchecked, because only its channel's loop touches it.
    typealias InboundIn = Wire.Message
    typealias OutboundOut = Wire.Message

    private let loop: any EventLoop
    private var context: ChannelHandlerContext?
    private var masks = RandomSource.seeded(1)
    private var trips = RoundTrips(size: Workload.roundTripSize, nanoseconds: 0)
    private var promise: EventLoopPromise<Double>?

    init(on loop: any EventLoop) { self.loop = loop }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        end(.failure(WrongResult(description: "the channel has ended")))
    }

    /// Measures one repetition. Must be called on the loop.
    func begin(_ nanoseconds: Int64) -> EventLoopFuture<Double> {
        guard let context else { return loop.makeFailedFuture(WrongResult(description: "the channel has ended")) }
        let promise = loop.makePromise(of: Double.self)
        self.promise = promise
        trips = RoundTrips(size: Workload.roundTripSize, nanoseconds: nanoseconds)
        ask(context)
        return promise.futureResult
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        do {
            let answer = Wire.content(Self.unwrapInboundIn(data))
            if try answer.withUnsafeReadableBytes({ try trips.answered($0) }) { return ask(context) }
            end(.success(try trips.median()))
        } catch {
            end(.failure(error))
        }
    }

    private func ask(_ context: ChannelHandlerContext) {
        context.writeAndFlush(Self.wrapOutboundOut(Wire.message(trips.message.bytes, &masks)), promise: nil)
    }

    private func end(_ result: Result<Double, any Error>) {
        promise?.completeWith(result)
        promise = nil
    }
}
