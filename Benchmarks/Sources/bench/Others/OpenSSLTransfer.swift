import CommandSupport
import Foundation
import SocketIO
import Transports
import TrialCertificates

extension Recipe {
    static let tlsOpenSSLLarge = Recipe(name: "openssl s_client, s_server", workload: .tlsLarge, isInProcess: false) {
        let transfer = try OpenSSLTransfer($0)
        let size = Workload.largeSize
        return Flood(size: size, unit: .megabytesPerSecond, first: 64, end: { transfer.close() }) {
            try transfer.pass($0 * size)
        }
    }
}

/// The command `openssl` on both sides. This process writes to the client's standard input and reads from the server's
/// standard output.
final class OpenSSLTransfer: Sendable {
    // Only used by one thread, or only stored.
    private nonisolated(unsafe) let server = Process()
    private nonisolated(unsafe) let client = Process()
    /// Kept open, because the server ends with its own input.
    private let serverInput = Pipe()
    private let serverOutput = Pipe()
    private let clientInput = Pipe()

    init(_ stage: Stage) throws {
        guard let path = Self.path else { throw Missing(description: "the command openssl is not installed") }
        let credentials = try TrialTLS.credentials.get()
        let reserved = try ReservedPort(isDatagram: false)
        let address = "127.0.0.1:\(reserved.port)"
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("bench-\(getpid())-server.pem")
        try (credentials.certificate + credentials.key).write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }

        server.arguments = ["s_server", "-quiet", "-accept", address, "-cert", file.path, "-key", file.path]
        (server.standardInput, server.standardOutput) = (serverInput, serverOutput)
        client.arguments = ["s_client", "-quiet", "-connect", address]
        (client.standardInput, client.standardOutput) = (clientInput, FileHandle.nullDevice)
        for process in [server, client] {
            process.executableURL = URL(fileURLWithPath: path)
            process.standardError = FileHandle.nullDevice
        }
        try stage.pinned(far: true) { try server.run() }
        try Self.waitUntilListening("tcp://\(address)", stage)
        try stage.pinned { try client.run() }
        // The answer of the handshake is not visible, so it belongs to the first run, which does not count.
    }

    private static func waitUntilListening(_ url: String, _ stage: Stage) throws {
        let loop = stage.clientLoop
        try blocking(on: loop) {
            let end = Clocks.monotonic() + 10_000_000_000
            while true {
                do {
                    _ = await (try TransportRegistry.standard.connect(url, on: loop)).close()
                    return
                } catch {
                    guard Clocks.monotonic() < end else { throw error }
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
        }
    }

    /// Sends `count` bytes. Returns the nanoseconds until the last one was read.
    func pass(_ count: Int) throws -> Int64 {
        let start = Clocks.monotonic()
        let descriptor = clientInput.fileHandleForWriting.fileDescriptor
        let writer = Thread { Self.write(count, to: descriptor) }
        writer.start()
        var block = [UInt8](repeating: 0, count: 1 << 16)
        var left = count
        while left > 0 {
            let taken = read(serverOutput.fileHandleForReading.fileDescriptor, &block, min(left, block.count))
            if taken < 0, errno == EINTR { continue }
            guard taken > 0 else { throw WrongResult(description: "openssl has ended \(left) bytes early") }
            left -= taken
        }
        return Clocks.monotonic() - start
    }

    private static func write(_ count: Int, to descriptor: Int32) {
        let block = [UInt8](repeating: 7, count: 1 << 16)
        var left = count
        while left > 0 {
            let written = Foundation.write(descriptor, block, min(left, block.count))
            if written < 0, errno == EINTR { continue }
            // The reader notices that bytes are missing.
            guard written > 0 else { return }
            left -= written
        }
    }

    func close() {
        for process in [client, server] where process.isRunning {
            process.terminate()
            process.waitUntilExit()
        }
    }

    private static var path: String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        return folders.map { "\($0)/openssl" }.first { access($0, X_OK) == 0 }
    }
}
