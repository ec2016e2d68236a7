import NIOCore
import NIOHTTP1
import NIOWebSocket
import Reporting
import TransportAPI

/// A format of messages on the wire. With it, each swift-nio contender is written once for all formats.
protocol NIOWire: Sendable {
    /// The type that the pipeline passes to the last handler and accepts from it.
    associatedtype Message: Sendable

    /// A client's message.
    static func message(_ bytes: [UInt8], _ masks: inout RandomSource) -> Message
    /// A server's answer to a message: the same bytes.
    static func answer(_ message: Message) -> Message
    /// The bytes of a message.
    static func content(_ message: Message) -> ByteBuffer

    /// Prepares a channel and calls `ready`, on its loop, when messages may flow.
    static func configureServer<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output>

    /// The same for a client.
    static func configureClient<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output>
}

/// Each message after its length in 4 bytes, like this package's `tcp://`.
enum NIOFramed: NIOWire {
    private static let allocator = ByteBufferAllocator()

    /// One buffer for length and message, so that nothing is copied twice and each write is one buffer.
    static func message(_ bytes: [UInt8], _: inout RandomSource) -> ByteBuffer {
        var buffer = allocator.buffer(capacity: bytes.count + 4)
        buffer.writeInteger(UInt32(truncatingIfNeeded: bytes.count))
        buffer.writeBytes(bytes)
        return buffer
    }

    static func answer(_ message: ByteBuffer) -> ByteBuffer {
        var buffer = allocator.buffer(capacity: message.readableBytes + 4)
        buffer.writeInteger(UInt32(truncatingIfNeeded: message.readableBytes))
        buffer.writeImmutableBuffer(message)
        return buffer
    }

    static func content(_ message: ByteBuffer) -> ByteBuffer { message }

    static func configureServer<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output> {
        try channel.pipeline.syncOperations.addHandler(ByteToMessageHandler(Decoder()))
        return channel.eventLoop.makeSucceededFuture(try ready(channel))
    }

    static func configureClient<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output> {
        try configureServer(channel, ready)
    }

    private struct Decoder: ByteToMessageDecoder {
        typealias InboundOut = ByteBuffer

        mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
            guard let message = buffer.readLengthPrefixedSlice(as: UInt32.self) else { return .needMoreData }
            context.fireChannelRead(Self.wrapInboundOut(message))
            return .continue
        }
    }
}

/// WebSocket with swift-nio's own upgraders, encoder and decoder.
enum NIOFrames: NIOWire {
    /// Room for the large messages. It does not slow messages within the default of 16 KiB.
    private static let maximumFrameSize = 2 << 20

    /// A client masks (RFC 6455, section 5.3). The keys come from a fast generator and not from the system's, which
    /// would cost swift-nio a system call for each message.
    static func message(_ bytes: [UInt8], _ masks: inout RandomSource) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: .binary, maskKey: .random(using: &masks), data: ByteBuffer(bytes: bytes))
    }

    static func answer(_ message: WebSocketFrame) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: message.opcode, data: message.unmaskedData)
    }

    static func content(_ message: WebSocketFrame) -> ByteBuffer { message.unmaskedData }

    static func configureServer<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output> {
        let upgrader = NIOTypedWebSocketServerUpgrader<Output?>(
            maxFrameSize: maximumFrameSize,
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture(HTTPHeaders()) },
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeCompletedFuture { try ready(channel) } }
        )
        let upgrade = NIOTypedHTTPServerUpgradeConfiguration<Output?>(
            upgraders: [upgrader],
            notUpgradingCompletionHandler: { $0.eventLoop.makeSucceededFuture(nil) }
        )
        return try channel.pipeline.syncOperations
            .configureUpgradableHTTPServerPipeline(configuration: .init(upgradeConfiguration: upgrade))
            .flatMapThrowing(upgraded)
    }

    static func configureClient<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output> {
        let upgrader = NIOTypedWebSocketClientUpgrader<Output?>(
            maxFrameSize: maximumFrameSize,
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeCompletedFuture { try ready(channel) } }
        )
        let headers: HTTPHeaders = ["Host": "127.0.0.1", "Content-Length": "0"]
        let upgrade = NIOTypedHTTPClientUpgradeConfiguration<Output?>(
            upgradeRequestHead: HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: headers),
            upgraders: [upgrader],
            notUpgradingCompletionHandler: { $0.eventLoop.makeSucceededFuture(nil) }
        )
        return try channel.pipeline.syncOperations
            .configureUpgradableHTTPClientPipeline(configuration: .init(upgradeConfiguration: upgrade))
            .flatMapThrowing(upgraded)
    }

    private static func upgraded<Output>(_ output: Output?) throws -> Output {
        guard let output else { throw WrongResult(description: "no WebSocket") }
        return output
    }
}
