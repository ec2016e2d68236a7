import Foundation
import Testing
import TrialCertificates

@testable import SocketIO

/// One side of an encrypted connection over a blocking socket. A test decides about each byte, and about the end.
final class BlockingTLS {
    private let descriptor: Int32
    private let engine: any TLSEngine
    private var input: [UInt8] = []
    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
    /// Why TLS has ended.
    private(set) var failure: TLSFailure?
    private(set) var hasEnded = false

    struct NotOpen: Error {}

    /// Takes the ownership of a connected socket.
    init(_ descriptor: Int32, _ engine: any TLSEngine) {
        (self.descriptor, self.engine) = (descriptor, engine)
    }

    /// Connects to a server on this machine.
    convenience init(connectingTo port: UInt16?, _ engine: any TLSEngine) throws {
        self.init(try connectedSocket(port), engine)
    }

    deinit {
        close(descriptor)
        memory.deallocate()
    }

    private func use(_ call: (UnsafeRawBufferPointer, inout TLSOutput) -> TLSStep) -> TLSStep {
        var room = TLSOutput(memory)
        let step = input.withUnsafeBytes { call($0, &room) }
        input.removeFirst(step.consumed)
        _ = Foundation.send(descriptor, memory.baseAddress, room.count, Int32(MSG_NOSIGNAL))
        if case .failed(let reason) = step.end { failure = reason }
        return step
    }

    private func receive() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 1 << 14)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count > 0 { input += buffer[..<count] }
        return count > 0
    }

    func handshake() throws {
        while true {
            switch use({ engine.handshake($0, &$1) }).end {
            case .done: return
            case .needsInput: guard receive() else { throw NotOpen() }
            case .needsOutput: continue
            case .ended, .failed: throw NotOpen()
            }
        }
    }

    func write(_ bytes: [UInt8]) {
        _ = use { _, output in bytes.withUnsafeBytes { engine.write($0, &output) } }
    }

    /// Writes bytes without encrypting them.
    func writePlainly(_ bytes: [UInt8]) {
        _ = Foundation.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Reads the next bytes. Returns none at the end.
    func read() -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            let step = buffer.withUnsafeMutableBytes { target in use { engine.read($0, into: target, &$1) } }
            if step.count > 0 { return Array(buffer.prefix(step.count)) }
            switch step.end {
            case .ended:
                hasEnded = true
                return []
            case .failed: return []
            case .done, .needsOutput: continue
            case .needsInput: guard receive() else { return [] }
            }
        }
    }

    /// Reads until the end.
    func readAll() -> [UInt8] {
        var all: [UInt8] = []
        while true {
            let bytes = read()
            guard !bytes.isEmpty else { return all }
            all += bytes
        }
    }

    /// Sends close_notify.
    func notifyClose() { _ = use { _, output in engine.end(&output) } }

    /// Ends the output by FIN, without close_notify.
    func finish() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Reads and drops bytes until the peer has ended the connection.
    func drain() { while receive() { input = [] } }
}

/// A socket that is connected to a port of this machine.
func connectedSocket(_ port: UInt16?) throws -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in.loopback(try #require(port))
    let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    try #require(result == 0)
    return descriptor
}

/// Makes the engines of raw peers.
struct RawEngines: Sendable {
    let authority: String
    let server: ThrowAwayAuthority.Issued

    init() throws {
        let authority = try ThrowAwayAuthority("Test authority")
        self.authority = authority.certificate
        server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
    }

    /// Makes an engine.
    func engine(_ side: TLSSettings.Side) throws -> any TLSEngine {
        var settings = TLSSettings(side)
        settings.authorities = TLSFile(authority)
        if side == .server {
            settings.certificate = TLSFile(server.certificate)
            settings.key = TLSFile(server.key)
        }
        let context = try OpenSSL.shared.makeContext(settings, password: nil)
        return try #require(context.makeEngine(host: side == .client ? "127.0.0.1" : nil, port: 0))
    }
}
