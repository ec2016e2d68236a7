import CommandSupport
import EmbeddedServers
import Foundation
import Measuring
import Protocols
import SocketIO
import TransportAPI
import Transports
import Workloads

/// An app that a row of `imbench outage` kills: one that submits numbers, or one that receives them. It prints a line for each
/// message at once, because a kill loses what is in a buffer. It ends with its input.
struct KilledApp: Sendable {
    /// The command line that starts such an app. The help omits it, because only this program and its tests use it.
    static let word = "killed-app"

    enum Role: Sendable, Hashable {
        /// Submits numbers from the first one on, in a session. It prints each number that was accepted, and `stopped` after a
        /// line of input has stopped it. The messages in its outbox are then still sent.
        case submit(from: Int, StoreLocation?)
        /// Serves, and prints for each message the identifier, the number, and the time in nanoseconds of the monotonic clock.
        case receive
    }

    /// The most messages in the outbox. It is always full, because the app submits faster than any transport sends.
    static let waiting = 200
    /// The beginning of the line with the reason why it has ended.
    static let failed = "failed "
    static let stopped = "stopped"

    private let role: Role
    private let endpoint: Endpoint
    private let timing: OutageTiming
    private let loop = EventLoop.shared
    private let isStopped = Locked(false)

    /// - Parameter words: Those of ``words(_:_:_:)``.
    init?(_ words: [String]) {
        guard words.count >= 4, let endpoint = try? Endpoint(words[1]), let interval = Int64(words[2]),
            let timeout = Int64(words[3])
        else { return nil }
        var timing = OutageTiming()
        (timing.interval, timing.timeout) = (.milliseconds(interval), .milliseconds(timeout))
        (self.endpoint, self.timing) = (endpoint, timing)
        switch (words[0], words.count) {
        case ("receive", 4): role = .receive
        case ("submit", 5), ("submit", 7):
            guard let first = Int(words[4]) else { return nil }
            var store: StoreLocation?
            if words.count == 7 {
                guard let kind = StoreLocation.Kind(rawValue: words[5]) else { return nil }
                store = StoreLocation(kind, path: words[6])
            }
            role = .submit(from: first, store)
        default: return nil
        }
    }

    /// The arguments of such an app, after its word. Times are passed in whole milliseconds.
    static func words(_ role: Role, _ endpoint: Endpoint, _ timing: OutageTiming) -> [String] {
        let times = [timing.interval, timing.timeout].map { String($0.wholeNanoseconds / 1_000_000) }
        switch role {
        case .receive: return ["receive", endpoint.description] + times
        case .submit(let first, let store):
            let stored = store.map { [$0.kind.rawValue, $0.path] } ?? []
            return ["submit", endpoint.description] + times + [String(first)] + stored
        }
    }

    /// Runs this app until its input ends.
    func run() -> Int32 {
        Task(executorPreference: loop) {
            do throws(TransportError) {
                switch role {
                case .submit(let first, let store): try await submit(from: first, store)
                case .receive: try await receive()
                }
            } catch {
                writeAll(STDOUT_FILENO, Self.failed + sentence(of: error) + "\n")
                exit(ExitStatus.failed)
            }
        }
        var lines = LineInput(STDIN_FILENO)
        while true {
            switch lines.next(timeout: -1) {
            case .end: return ExitStatus.good
            case .nothing: continue
            case .line, .tooLong: isStopped.withLock { $0 = true }
            }
        }
    }

    private func submit(from first: Int, _ store: StoreLocation?) async throws(TransportError) {
        let transport = try TransportRegistry.measured.transport(named: endpoint.scheme)
        var endpoint = endpoint
        endpoint.options += transport.loopback("outage")
        endpoint.options += TransportRegistry.acknowledging(endpoint.scheme)
        var configuration = TransportConfiguration(endpoints: [endpoint], supervisor: timing.configuration)
        configuration.supervisor.outbox.maximumCount = Self.waiting
        configuration.supervisor.outbox.store = store
        let supervisor = try Supervisor(configuration, registry: .measured, on: loop)
        // A broker sends each message back, and must not wait for it to be read.
        let messages = supervisor.messages
        Task(executorPreference: loop) { for await _ in messages {} }
        supervisor.connect()
        var number = first
        while !isStopped.withLock({ $0 }) {
            _ = try await supervisor.submit(Payload(text: "\(number)"))
            writeAll(STDOUT_FILENO, "\(number)\n")
            number += 1
        }
        writeAll(STDOUT_FILENO, Self.stopped + "\n")
    }

    private func receive() async throws(TransportError) {
        guard !TransportRegistry.hasBroker(endpoint.scheme) else {
            let broker = try await EmbeddedServer.broker(endpoint, on: loop, registry: .measured) { payload in
                guard case .origin(let sender, let sequence, let message, _)? = try? SessionFrame(payload) else {
                    return
                }
                Self.write("\(sender.high)-\(sender.low)-\(sequence)", message)
            }
            while !Task.isCancelled { await loop.pause(.seconds(3600)) }
            return await broker.stop()
        }
        var settings = SessionServer.Configuration()
        settings.supervisor = timing.configuration
        let server = SessionServer(settings, on: loop) { [loop] session in
            let deliveries = session.deliveries
            Task(executorPreference: loop) {
                for await message in deliveries {
                    Self.write(message.id.map { "\($0)" } ?? "?", message.payload)
                    message.acknowledge()
                }
            }
        }
        try await server.serve(try await TransportRegistry.measured.listen(endpoint.description, on: loop))
    }

    private static func write(_ identifier: String, _ message: Payload) {
        let number = String(decoding: message.bytes, as: UTF8.self)
        writeAll(STDOUT_FILENO, "\(identifier) \(number) \(MonotonicClock.now())\n")
    }
}
