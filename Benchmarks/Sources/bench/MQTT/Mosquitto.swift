import CommandSupport
import Foundation
import SocketIO
import Synchronization
import TransportAPI
import Transports

/// Our own mosquitto process, with no limit on queued messages. It ends with this value.
final class Mosquitto: Sendable {
    /// The broker that all clients share. It is started for the first of them.
    static let shared = Mutex<Mosquitto?>(nil)

    let port: UInt16
    private let reserved: ReservedPort
    // Only stored, because the process is killed when this value is released.
    private nonisolated(unsafe) let process: ChildProcess

    static func running(_ stage: Stage) throws -> Mosquitto {
        try shared.withLock { held in
            let running = try held ?? Mosquitto(stage)
            held = running
            return running
        }
    }

    private init(_ stage: Stage) throws {
        guard let path = Self.path else { throw Missing(description: "mosquitto is not installed (scripts/peers)") }
        reserved = try ReservedPort(isDatagram: false)
        port = reserved.port
        let text = """
            \(getuid() == 0 ? "user root" : "")
            log_dest none
            set_tcp_nodelay true
            allow_anonymous true
            max_queued_messages 0
            max_inflight_messages 0
            listener \(port) 127.0.0.1

            """
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("bench-\(getpid())-mosquitto.conf")
        try text.write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }
        // It runs on the core of the peer, like all other servers.
        process = try stage.pinned(far: true) { try ChildProcess([path, "-c", file.path]) }
        let (loop, url) = (stage.clientLoop, "mqtt://127.0.0.1:\(port)")
        try blocking(on: loop) {
            let end = Clocks.monotonic() + 10_000_000_000
            while true {
                do {
                    return await (try TransportRegistry.standard.connect(url, on: loop)).close()
                } catch {
                    guard Clocks.monotonic() < end else { throw error }
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
        }
    }

    private static var path: String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":") + ["/usr/sbin"]
        return folders.map { "\($0)/mosquitto" }.first { access($0, X_OK) == 0 }
    }
}
