import CommandSupport
import Foundation
import Reporting
import SocketIO
import TransportAPI
import Transports

/// A mosquitto process of this program, at a free port, without a limit on queued messages.
///
/// A shell starts it, and ends it by its process identifier when this program ends its input or ends itself in any way.
final class Mosquitto: Sendable {
    /// The time until it must accept a client.
    private static let startTimeout: Int64 = 5_000_000_000
    /// How many bytes of its errors are read.
    private static let longestLog = 1 << 16
    /// Starts a program with a configuration, prints its process identifier, and ends it at the end of the input.
    private static let script =
        #""$0" -c "$1" </dev/null >/dev/null 2>"$2" & echo $!; read -r _; kill $!; wait $!"#

    let endpoint: Endpoint
    private let identifier: pid_t
    // Unchecked, because only ``stop()`` uses it, and one owner calls that.
    private nonisolated(unsafe) let process: ChildProcess
    // Keeps the port.
    private let reserved: ReservedPort

    /// The program; `nil` if it is not installed.
    static let path: String? = {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        return (folders + ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"])
            .map { "\($0)/mosquitto" }.first { access($0, X_OK) == 0 }
    }()

    /// Starts it, with one listener for a transport, and waits until it accepts clients. It runs on the core of the loop that
    /// calls this, and in the same network namespace.
    ///
    /// - Throws: why it does not accept clients, with its own error if it printed one.
    static func start(
        _ transport: TransportDescriptor,
        host: String,
        on loop: EventLoop
    ) async throws(TransportError) -> Mosquitto {
        let started: Result<Mosquitto, TransportError> = await loop.perform {
            do {
                return .success(try Mosquitto(transport, host))
            } catch {
                let sentence = (error as? SystemFailure)?.message ?? "\(error)"
                return .failure(TransportError(.serverUnavailable, .connect, sentence))
            }
        }
        let broker = try started.get()
        do throws(TransportError) {
            try await broker.answer(transport, on: loop)
        } catch {
            let reason = broker.lastError
            broker.stop()
            let detail = reason.map { ": \($0)" } ?? ", but: \(error.sentence)"
            throw TransportError(.serverUnavailable, .connect, "mosquitto has accepted no client\(detail)")
        }
        try? FileManager.default.removeItem(atPath: broker.folder)
        return broker
    }

    private let folder: String

    private init(_ transport: TransportDescriptor, _ host: String) throws {
        guard let path = Self.path else { throw SystemFailure("mosquitto is not installed") }
        reserved = try ReservedPort(isDatagram: false)
        endpoint = Endpoint(scheme: transport.name, host: host, port: reserved.port, path: "/")
        folder = FileManager.default.temporaryDirectory.path + "/imbench-\(getpid())-\(reserved.port)"
        guard mkdir(folder, 0o700) == 0 else { throw SystemFailure("cannot make the folder \(folder)", errno: errno) }
        var lines = [
            "log_dest stderr", "log_type error", "set_tcp_nodelay true", "allow_anonymous true", "persistence false",
            "max_queued_messages 0", "max_inflight_messages 0", "listener \(reserved.port) \(host)",
        ]
        if transport.isComposed { lines.append("protocol websockets") }
        // As root it would become another user, who cannot read the configuration.
        if getuid() == 0 { lines.insert("user root", at: 0) }
        do {
            (process, identifier) = try Self.run(path, lines, folder)
        } catch {
            try? FileManager.default.removeItem(atPath: folder)
            throw error
        }
    }

    /// Starts the program with the lines of its configuration.
    private static func run(_ path: String, _ lines: [String], _ folder: String) throws -> (ChildProcess, pid_t) {
        let target = try ReportTarget(path: folder + "/mosquitto.conf")
        try target.write(lines.joined(separator: "\n") + "\n")
        let child = try ChildProcess(["/bin/sh", "-c", script, path, folder + "/mosquitto.conf", folder + "/log"])
        guard case .line(let line) = child.next(timeout: 5000), let number = pid_t(line) else {
            _ = child.end()
            throw SystemFailure("/bin/sh has not started \(path)")
        }
        return (child, number)
    }

    deinit {
        stop()
    }

    /// Ends the process.
    func stop() {
        _ = process.end()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// The processor time that it has used, in nanoseconds; `nil` if the system does not tell.
    var cpu: Int64? { Clocks.processCPU(identifier) }

    /// The last line of its errors.
    private var lastError: String? {
        readFile(folder + "/log", limit: Self.longestLog)?.split(separator: "\n").last.map { String($0) }
    }

    /// Waits until it accepts a client.
    private func answer(_ transport: TransportDescriptor, on loop: EventLoop) async throws(TransportError) {
        let end = Clocks.monotonic() + Self.startTimeout
        let target = try transport.make(endpoint, ConnectionContext(on: loop))
        while true {
            do throws(TransportError) {
                let connection = try await target.connect(timeout: .seconds(1))
                await connection.close()
                return
            } catch {
                guard Clocks.monotonic() < end, !Task.isCancelled else { throw error }
                await loop.pause(.milliseconds(20))
            }
        }
    }
}
