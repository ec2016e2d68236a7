import Codecs
import CommandSupport
import EmbeddedServers
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// `imlab work [NAME]`: runs one step of a message's path many times and nothing else, for profilers and for scripts/measure/guard.
/// Without a name, it lists the steps.
struct WorkCommand: RunnableCommand {
    static let command = Command(
        name: "work",
        summary: "repeat one step of a message's path, for a profiler; without a name, list the steps",
        argument: "[NAME]",
        isInterruptible: false,
        examples: [
            .init("imlab work", "the names of all steps"),
            .init("imlab work json-encode --times 10000", "one step, 10,000 times"),
        ]
    )

    var general = GeneralOptions()
    /// The name of the step; `nil` to list all steps.
    var step: String?
    /// How often it runs.
    var times = 1_000_000

    static func ownOptions(_: Vocabulary) -> OptionList<WorkCommand> {
        var list = OptionList(WorkCommand())
        list.add(.load, [Setting("times", .integer(1...1_000_000_000), \.times, "how often the step runs")])
        return list
    }

    mutating func check(_ line: TypedLine, _: Vocabulary) throws(UsageError) {
        guard line.arguments.count <= 1 else {
            throw UsageError("'work' takes one step, but got '\(line.arguments[1])' as well")
        }
        step = line.arguments.first
    }

    func run() throws -> Int32 { try work(self) }
}

private func work(_ options: WorkCommand) throws -> Int32 {
    let target = try ReportTarget()
    guard let name = options.step else {
        let width = HotPath.all.map(\.name.count).max() ?? 0
        // scripts/measure/guard reads the names, one from each line.
        try target.write(HotPath.all.map { "\($0.name.padded(to: width))  \($0.summary)\n" }.joined())
        return ExitStatus.good
    }
    guard let path = HotPath.all.first(where: { $0.name == name }) else {
        throw UsageError.unknown("step", name, of: "'work'", allowed: HotPath.all.map(\.name))
    }
    do {
        try path.prepare()(options.times)
    } catch {
        throw SystemFailure("work: \(name): \(error)")
    }
    return ExitStatus.good
}

/// One step of a message's path, which can be counted and profiled without the other steps.
struct HotPath: Sendable {
    /// Runs the step this number of times.
    typealias Work = (_ times: Int) throws -> Void

    let name: String
    let summary: String
    /// Prepares the step.
    let prepare: @Sendable () throws -> Work

    static let all = codecs + cores + handshakes + [routing] + supervised

    /// The message of all steps: a text of 128 bytes in a conversation.
    static let message = ChatMessage.sample(size: 128, seed: 1)

    struct Mistake: Error, CustomStringConvertible {
        let description: String
    }

    // MARK: Codecs

    private static let codecs = [
        encoding(JSONCodec()), decoding(JSONCodec()), encoding(ProtobufCodec()), decoding(ProtobufCodec()),
    ]

    private static func encoding(_ codec: some MessageCodec) -> HotPath {
        HotPath(name: "\(codec.format.name)-encode", summary: "encodes the message into reused memory") {
            let kept = Kept()
            return { times in
                for _ in 0..<times {
                    kept.bytes.removeAll(keepingCapacity: true)
                    try codec.encode(message, into: &kept.bytes)
                }
            }
        }
    }

    private static func decoding(_ codec: some MessageCodec) -> HotPath {
        HotPath(name: "\(codec.format.name)-decode", summary: "decodes the message") {
            let bytes = try codec.encode(message)
            return { times in
                for _ in 0..<times {
                    guard try codec.decode(ChatMessage.self, from: bytes).sentAtMs == message.sentAtMs else {
                        throw Mistake(description: "the decoded message differs")
                    }
                }
            }
        }
    }

    private final class Kept {
        var bytes: [UInt8] = []
    }

    // MARK: Cores

    /// The transports whose cores are measured, each with options of its client.
    private static let measuredCores: [(name: String, transport: TransportDescriptor, options: [Endpoint.Option])] = [
        ("tcp", .tcp, []), ("ws", .webSocket, []), ("mqtt", .mqtt, []),
        ("mqtt-qos1", .mqtt, [.init(name: "qos", value: "1")]), ("udp", .udp, []),
    ]

    private static let cores = measuredCores.map { name, transport, options in
        HotPath(name: name, summary: "one core encodes 128 bytes, and the other decodes them") {
            let pair = try pairs(transport, options)()
            let payload = Payload([UInt8](repeating: 66, count: 128))
            return { times in
                let before = pair.server.messages
                for id in 0..<times {
                    try pair.client.send(payload, id: UInt64(id))
                    try pair.carry()
                }
                guard pair.server.messages == before + times else {
                    throw Mistake(description: "\(pair.server.messages - before) of \(times) messages arrived")
                }
            }
        }
    }

    private static let handshakes = [TransportDescriptor.webSocket, .mqtt].map { transport in
        HotPath(name: "\(transport.name)-open", summary: "creates two cores, which open their connection") {
            let makePair = try pairs(transport, [])
            return { times in
                for _ in 0..<times { _ = try makePair() }
            }
        }
    }

    private static func pairs(
        _ transport: TransportDescriptor,
        _ options: [Endpoint.Option]
    ) throws -> () throws(TransportError) -> CorePair {
        guard let makePair = try CorePair.maker(transport.name, options: options, registry: .available) else {
            throw Mistake(description: "\(transport.name) makes no cores to measure")
        }
        return makePair
    }

    // MARK: The broker

    private static let routing = HotPath(
        name: "broker-route",
        summary: "finds the 100 subscribers of a topic among 1,000 sessions"
    ) {
        var broker = BrokerCore()
        for session in 1...1000 as ClosedRange<UInt64> {
            _ = try broker.connect(session, clientID: [])
            let filter = session % 10 == 0 ? "chat/+/room" : "chat/\(session)/room"
            guard broker.subscribe(session, to: filter, qos: .atMostOnce) != nil else {
                throw Mistake(description: "a subscription was refused")
            }
        }
        var deliveries: [BrokerCore.Delivery] = []
        return { times in
            for _ in 0..<times {
                broker.route(topic: "chat/ann/room", qos: .atMostOnce, into: &deliveries)
                guard deliveries.count == 100 else { throw Mistake(description: "\(deliveries.count) subscribers") }
            }
        }
    }
}

extension HotPath {
    /// A message through all layers: the public interface, the supervisor, drivers, the loop, and the system calls. The work of
    /// the kernel is not counted.
    static let supervised = [TransportDescriptor.memory, .tcp, .webSocket, .udp, .tls].map { transport in
        HotPath(
            name: "supervised-\(transport.name)",
            summary: "a supervisor sends 128 bytes to an echo server, and back"
        ) {
            let loop = try makeLoop("work")
            let url = "\(transport.name)://" + (transport.defaultPort == nil ? "work" : "127.0.0.1:0")
            let supervisor = try runBlocking(on: loop) { await open(url, on: loop) }.get()
            return { times in
                let result = runBlocking(on: loop) { await exchange(supervisor.client, times) }
                if let problem = result { throw Mistake(description: problem) }
            }
        }
    }

    /// A supervisor and its server, which ends with its last reference.
    private struct Supervised: Sendable {
        let client: Supervisor
        let server: EmbeddedServer
    }

    private static func open(_ url: String, on loop: EventLoop) async -> Result<Supervised, TransportError> {
        do throws(TransportError) {
            let server = try await EmbeddedServer.start(url, on: loop, registry: .trial)
            var setup = Supervisor.Setup(endpoints: [server.endpoint]) { endpoint throws(TransportError) in
                try TransportRegistry.trial.transport(for: endpoint, on: loop)
            }
            setup.configuration.keepalive.interval = .off
            let client = try Supervisor(setup, on: loop)
            client.connect()
            return .success(Supervised(client: client, server: server))
        } catch {
            return .failure(error)
        }
    }

    private static func exchange(_ supervisor: Supervisor, _ times: Int) async -> String? {
        let payload = Payload([UInt8](repeating: 66, count: 128))
        var answers = supervisor.messages.makeAsyncIterator()
        for _ in 0..<times {
            let outcome = await supervisor.send(payload)
            guard outcome.isSuccess else { return "a message was not sent: \(outcome)" }
            guard await answers.next() == payload else { return "the echo differs from the message" }
        }
        return nil
    }
}
