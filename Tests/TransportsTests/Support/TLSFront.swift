import Foundation
import SocketIO
import TrialCertificates

@testable import Transports

/// A TLS server with the certificate of ``TrialTLS`` that passes the decrypted bytes on to a port of this machine. In
/// front of a proxy, it makes an https:// proxy of it.
final class TLSFront: Sendable {
    private let listener: RawListener

    var port: UInt16 { listener.port }

    init(to port: UInt16, _ settings: TLSSettings = TLSSettings(.server)) async throws {
        let loop = EventLoop.shared
        let contexts = TLSContexts(TrialTLS())
        let context = try await contexts.context(for: settings, on: loop, deadline: .max)
        listener = try RawListener()
        listener.serve { _, client in
            guard let server = connectToLoopback(port) else {
                close(client)
                return
            }
            for descriptor in [client, server] {
                _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
            }
            loop.execute {
                let plain = StreamSocket(Descriptor(server), on: loop)
                let socket = StreamSocket(Descriptor(client), on: loop)
                guard let engine = context.makeEngine(host: nil, port: 0) else { return }
                StreamRelay(TLSStream(over: socket, engine, .server, on: loop), plain, on: loop).start()
            }
        }
    }

    func stop() { listener.stop() }
}

/// Passes the bytes of two streams on to each other. The first one may have a handshake. Lives on its loop, which keeps
/// it alive.
private final class StreamRelay: PollHandler {
    private let streams: [any ByteChannel]
    private let loop: EventLoop
    /// The bytes that were read from each stream and not written to the other one.
    private var pending: [[UInt8]] = [[], []]
    private var hasEnded = [false, false]
    private var isReady = false
    private var isClosed = false

    init(_ first: any ByteChannel, _ second: any ByteChannel, on loop: EventLoop) {
        streams = [first, second]
        self.loop = loop
    }

    func start() {
        for stream in streams { try? stream.attach(self) }
        pump()
    }

    func ready(_ readiness: Readiness) {
        for stream in streams { stream.note(readiness) }
        pump()
    }

    private func pump() {
        guard !isClosed else { return }
        if !isReady {
            switch streams[0].advance() {
            case .ready: isReady = true
            case .waiting: return
            case .failed: return close()
            case .again:
                let confined = LoopBound(self, to: loop)
                return loop.execute { confined.value.pump() }
            }
        }
        if !pass(0, 1) || !pass(1, 0) || hasEnded == [true, true] && pending == [[], []] { close() }
    }

    /// Returns `false` if one of the streams is broken.
    private func pass(_ from: Int, _ to: Int) -> Bool {
        while true {
            while !pending[from].isEmpty {
                switch pending[from].withUnsafeBytes({ streams[to].write($0) }) {
                case .bytes(let count): pending[from].removeFirst(count)
                case .wouldBlock: return true
                default: return false
                }
            }
            guard !hasEnded[from] else { return true }
            var buffer = [UInt8](repeating: 0, count: 16_384)
            switch buffer.withUnsafeMutableBytes({ streams[from].read(into: $0) }) {
            case .bytes(let count): pending[from] = Array(buffer.prefix(count))
            case .wouldBlock: return true
            case .end:
                hasEnded[from] = true
                streams[to].shutdownWriting()
            default: return false
            }
        }
    }

    private func close() {
        isClosed = true
        for stream in streams { stream.close(abort: false) }
    }
}
