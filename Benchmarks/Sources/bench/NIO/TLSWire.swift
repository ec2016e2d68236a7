import NIOCore
import NIOSSL
import SocketIO
import TransportAPI
import TrialCertificates

/// ``NIOFramed`` over swift-nio-ssl, which uses BoringSSL.
enum NIOEncrypted: NIOWire {
    private struct Contexts {
        var client: NIOSSLContext
        var server: NIOSSLContext
    }

    /// Both sides use the certificates of this package's contenders.
    private static let contexts = Result<Contexts, any Error> {
        let credentials = try TrialTLS.credentials.get()
        func certificates(_ text: String) throws -> [NIOSSLCertificate] {
            try NIOSSLCertificate.fromPEMBytes(Array(text.utf8))
        }
        var client = TLSConfiguration.makeClientConfiguration()
        client.trustRoots = .certificates(try certificates(credentials.authority))
        let server = TLSConfiguration.makeServerConfiguration(
            certificateChain: try certificates(credentials.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(credentials.key.utf8), format: .pem))
        )
        return Contexts(
            client: try NIOSSLContext(configuration: client),
            server: try NIOSSLContext(configuration: server)
        )
    }

    static func message(_ bytes: [UInt8], _ masks: inout RandomSource) -> ByteBuffer {
        NIOFramed.message(bytes, &masks)
    }

    static func answer(_ message: ByteBuffer) -> ByteBuffer { NIOFramed.answer(message) }

    static func content(_ message: ByteBuffer) -> ByteBuffer { NIOFramed.content(message) }

    static func configureServer<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output> {
        try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: contexts.get().server))
        return try NIOFramed.configureServer(channel, ready)
    }

    static func configureClient<Output: Sendable>(
        _ channel: any Channel,
        _ ready: @escaping @Sendable (any Channel) throws -> Output
    ) throws -> EventLoopFuture<Output> {
        let handler = try NIOSSLClientHandler(context: contexts.get().client, serverHostname: "localhost")
        try channel.pipeline.syncOperations.addHandler(handler)
        return try NIOFramed.configureClient(channel, ready)
    }
}
