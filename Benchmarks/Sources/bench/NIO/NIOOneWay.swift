import CommandSupport
import NIOCore
import TransportAPI

extension Recipe {
    static let tcpNIOOneWay = Recipe(name: "swift-nio handlers", workload: .tcpOneWay) {
        try NIOOneWay<NIOFramed>.flood($0, size: Workload.oneWaySize)
    }
    static let webSocketNIOOneWay = Recipe(name: "swift-nio handlers", workload: .webSocketOneWay) {
        try NIOOneWay<NIOFrames>.flood($0, size: Workload.oneWaySize)
    }
    static let webSocketNIOLarge = Recipe(name: "swift-nio handlers", workload: .webSocketLarge) {
        try NIOOneWay<NIOFrames>.flood($0, size: Workload.largeSize, unit: .megabytesPerSecond, first: 8)
    }
    static let tlsNIOLarge = Recipe(name: "swift-nio-ssl handlers", workload: .tlsLarge) {
        try NIOOneWay<NIOEncrypted>.flood($0, size: Workload.largeSize, unit: .megabytesPerSecond, first: 64)
    }
}

/// Messages in one direction between two channel handlers.
enum NIOOneWay<Wire: NIOWire> {
    static func flood(
        _ stage: Stage,
        size: Int,
        unit: Workload.Unit = .messagesPerSecond,
        first: Int = 2000
    ) throws -> any Contender {
        let (sending, taking, channel) = try NIOPlaces.connect(
            stage,
            over: Wire.self,
            accepted: { try Self.add(Taking<Wire>(size, on: $0.eventLoop), to: $0) },
            connected: { try Self.add(Sending<Wire>(size), to: $0) }
        )
        return Flood(size: size, unit: unit, first: first, end: { try? channel.close().wait() }) { count in
            // The receiver has another loop, so it must begin before the first messages arrive.
            let taken = try taking.loop.submit { taking.begin(count) }.wait()
            let start = Clocks.monotonic()
            channel.eventLoop.execute { sending.begin(count) }
            return try taken.wait() - start
        }
    }

    private static func add<Handler: ChannelHandler>(_ handler: Handler, to channel: any Channel) throws -> Handler {
        try channel.pipeline.syncOperations.addHandler(handler)
        return handler
    }
}

/// Writes while the channel is writable, up to its high watermark, and then flushes. So the kernel gets many messages
/// in one call, and the buffer of the channel stays bounded.
private final class Sending<Wire: NIOWire>: ChannelInboundHandler, @unchecked Sendable {
    // Unchecked, because only its channel's loop touches it.
    typealias InboundIn = Wire.Message
    typealias OutboundOut = Wire.Message

    private var context: ChannelHandlerContext?
    private var masks = RandomSource.seeded(1)
    private var message: NumberedMessage
    private var next = 0
    private var count = 0
    private var isFilling = false

    init(_ size: Int) { message = NumberedMessage(size: size) }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func begin(_ count: Int) {
        (next, self.count) = (0, count)
        fill()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) { fill() }

    private func fill() {
        // A flush may report at once, from inside this call, that there is room again.
        guard !isFilling, let context else { return }
        isFilling = true
        defer { isFilling = false }
        let channel = context.channel
        while next < count, channel.isWritable {
            while next < count, channel.isWritable {
                message.setNumber(next)
                context.write(Self.wrapOutboundOut(Wire.message(message.bytes, &masks)), promise: nil)
                next += 1
            }
            context.flush()
        }
    }
}

private final class Taking<Wire: NIOWire>: ChannelInboundHandler, @unchecked Sendable {
    // Unchecked, because only its channel's loop touches it.
    typealias InboundIn = Wire.Message

    let loop: any EventLoop
    private var expected: NumberedMessage
    private var next = 0
    private var count = 0
    private var promise: EventLoopPromise<Int64>?

    init(_ size: Int, on loop: any EventLoop) {
        expected = NumberedMessage(size: size)
        self.loop = loop
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        promise?.fail(WrongResult(description: "the channel has ended"))
        promise = nil
    }

    /// Returns the time at which `count` messages have arrived. Must be called on the loop.
    func begin(_ count: Int) -> EventLoopFuture<Int64> {
        let promise = loop.makePromise(of: Int64.self)
        (next, self.count, self.promise) = (0, count, promise)
        return promise.futureResult
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        expected.setNumber(next)
        let isRight = Wire.content(Self.unwrapInboundIn(data)).withUnsafeReadableBytes { expected.equals($0) }
        next += 1
        if !isRight {
            promise?.fail(WrongResult(description: "message \(next - 1) differs from the sent one"))
        } else if next == count {
            promise?.succeed(Clocks.monotonic())
        }
        if !isRight || next == count { promise = nil }
    }
}
