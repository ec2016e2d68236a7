import CommandSupport
import Foundation
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports

/// One of two peers whose processes a test kills. It sends numbers and receives those of the other peer. One file has the
/// numbers that the other peer has acknowledged, and another file those that this peer has processed. After a restart it
/// continues where the files end. It prints `on` for each twenty of both, `done` when all of its numbers are acknowledged,
/// and `processed` when it has processed all numbers of the other peer. It ends with its input.
struct KillPeer: Sendable {
    /// The command line that starts such a peer. The help omits it, because only tests use it.
    static let word = "kill-peer"

    private let isServer: Bool
    private let url: String
    private let folder: String
    private let count: Int
    private let launch: UInt16
    /// Whether messages are acknowledged after processing, and not on receipt.
    private let isAcknowledgedAfterProcessing: Bool
    private let acknowledged: Journal
    private let processed: Journal
    private let progress = Progress()
    private let numbers: Locked<Set<Int>>

    /// - Parameter words: `server` or `client`, the URL, the folder of the files, how many messages, `processing` or
    ///   `receipt`, and how often this peer has been started.
    init?(_ words: [String]) {
        guard words.count == 6, let count = Int(words[3]), let launch = UInt16(words[5]) else { return nil }
        isServer = words[0] == "server"
        (url, folder, self.count, self.launch) = (words[1], words[2], count, launch)
        isAcknowledgedAfterProcessing = words[4] == "processing"
        guard let acknowledged = Journal("\(folder)/acknowledged"), let processed = Journal("\(folder)/processed")
        else {
            return nil
        }
        (self.acknowledged, self.processed) = (acknowledged, processed)
        numbers = Locked(processed.numbers())
    }

    /// Runs this peer until the input ends.
    func run() -> Int32 {
        if numbers.withLock({ $0.count == count }) { writeAll(STDOUT_FILENO, "processed\n") }
        Task(executorPreference: EventLoop.shared) {
            do throws(TransportError) {
                if isServer { try await serve() } else { try await connect() }
            } catch {
                remark("\(error)")
                exit(ExitStatus.failed)
            }
        }
        var lines = LineInput(STDIN_FILENO)
        while true { if case .end = lines.next(timeout: -1) { return ExitStatus.good } }
    }

    private func serve() async throws(TransportError) {
        let server = SessionServer { session in
            if isAcknowledgedAfterProcessing {
                let deliveries = session.deliveries
                Task(executorPreference: EventLoop.shared) { await process(deliveries) }
            } else {
                let messages = session.messages
                Task(executorPreference: EventLoop.shared) { await process(messages) }
            }
            Task(executorPreference: EventLoop.shared) { await sendAll { await session.send($0) } }
        }
        try await server.serve(try await TransportRegistry.standard.listen(url))
    }

    private func connect() async throws(TransportError) {
        var configuration = TransportConfiguration(endpoints: [try Endpoint(url)])
        let isSession = !TransportRegistry.hasBroker(try Endpoint(url).scheme)
        configuration.supervisor.delivery.mode = isSession ? .session : .plain
        configuration.supervisor.backoff = .exponential(
            initial: .milliseconds(10),
            maximum: .milliseconds(100),
            multiplier: 2,
            jitter: .equal
        )
        let client = SessionClient(id: SessionID(high: 7, low: 7), launch: launch)
        let supervisor = try Supervisor(configuration) { $0.client = client }
        let deliveries = isAcknowledgedAfterProcessing ? supervisor.deliveries : nil
        let messages = isAcknowledgedAfterProcessing ? nil : supervisor.messages
        supervisor.connect()
        Task(executorPreference: EventLoop.shared) { await sendAll { await supervisor.send($0) } }
        if let deliveries { await process(deliveries) }
        if let messages { await process(messages) }
    }

    private func process(_ deliveries: Subscription<ReceivedMessage>) async {
        for await delivery in deliveries {
            await process(delivery.payload)
            delivery.acknowledge()
        }
    }

    private func process(_ messages: Subscription<Payload>) async {
        for await message in messages { await process(message) }
    }

    private func process(_ message: Payload) async {
        guard let number = Int(String(decoding: message.bytes, as: UTF8.self)) else { return }
        // In a slow app messages accumulate.
        if number % 16 == 0 { try? await Task.sleep(nanoseconds: 1_000_000) }
        processed.append(number)
        progress.step()
        let isLast = numbers.withLock { numbers in numbers.insert(number).inserted && numbers.count == count }
        if isLast { writeAll(STDOUT_FILENO, "processed\n") }
    }

    private func sendAll(_ send: @escaping @Sendable (Payload) async -> SendOutcome) async {
        let done = acknowledged.numbers()
        await withTaskGroup(of: Void.self) { group in
            var running = 0
            for number in 0..<count where !done.contains(number) {
                if running >= 200 { await group.next() } else { running += 1 }
                group.addTask(executorPreference: EventLoop.shared) {
                    let payload = Payload(text: "\(number)")
                    while await send(payload) != .acknowledged { try? await Task.sleep(nanoseconds: 10_000_000) }
                    acknowledged.append(number)
                    progress.step()
                }
            }
        }
        writeAll(STDOUT_FILENO, "done\n")
    }

    /// Writes a line for each twenty steps.
    private final class Progress: Sendable {
        private let steps = Locked(0)

        func step() {
            let isNoted = steps.withLock { steps in
                steps += 1
                return steps % 20 == 0
            }
            if isNoted { writeAll(STDOUT_FILENO, "on\n") }
        }
    }

    /// Numbers in a file. An appended number is in the kernel's memory and outlives the process.
    struct Journal: Sendable {
        private let path: String
        private let descriptor: Int32

        init?(_ path: String) {
            self.path = path
            descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
            if descriptor < 0 { return nil }
        }

        func append(_ number: Int) { writeAll(descriptor, "\(number)\n") }

        func numbers() -> Set<Int> {
            guard let text = readFile(path, limit: 64 << 20) else { return [] }
            return Set(text.split(separator: "\n").compactMap { Int($0) })
        }
    }
}
