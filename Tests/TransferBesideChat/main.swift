import CommandSupport
import EmulatedNetworks
import Foundation
import Measuring
import SocketIO
import Transfers
import TransportAPI
import Transports

// TransferBesideChat TRANSPORT NETWORK BYTES CUTS: sends messages, 50 a second, over an emulated network, first alone and then
// beside a file that the client sends. Meanwhile the connections are cut so often, and if they are, the server is once
// replaced by another one. Prints the round trips of the messages, how long the file took, and whether it has arrived.

let words = CommandLine.arguments
guard words.count == 5, let size = Int(words[3]), let cuts = Int(words[4]) else { exit(64) }
if let refusal = NetworkLab.refusal() {
    print("no network: \(refusal)")
    exit(69)
}

/// A server that can be replaced by another one.
final class Host: Sendable {
    let loop: EventLoop
    private let target: String
    private let state = Locked<(listener: any Listener, server: SessionServer)?>(nil)

    init(on loop: EventLoop, target: String) { (self.loop, self.target) = (loop, target) }

    func start(_ url: String) async throws -> Endpoint {
        let server = SessionServer(on: loop) { [target, loop] session in
            Transfers(over: session).onOffer { try await $0.write(to: target) }
            let messages = session.messages
            Task(executorPreference: loop) { for await message in messages { _ = try? await session.submit(message) } }
        }
        let listener = try await TransportRegistry.standard.listen(url, on: loop)
        Task { try await server.serve(listener) }
        state.withLock { $0 = (listener, server) }
        return listener.endpoint
    }

    func cut() async { await state.withLock { $0 }?.server.dropConnections() }

    func stop() async {
        guard let (listener, server) = state.withLock({ $0.take() }) else { return }
        await listener.close()
        await server.dropConnections()
    }
}

/// Waits on the shared loop.
func pause(_ time: Duration) async {
    let loop = EventLoop.shared
    await withUnsafeContinuation { continuation in
        loop.execute { _ = loop.schedule(at: loop.clock.advanced(by: time)) { continuation.resume() } }
    }
}

/// The round trips of messages that are sent every 20 ms.
func chat(_ supervisor: Supervisor, until isOver: @escaping @Sendable (Int) -> Bool) async -> [Double] {
    let messages = supervisor.messages
    let sent = Locked<[UInt64]>([])
    let sending = Task(executorPreference: EventLoop.shared) {
        var next = Clocks.monotonic()
        while !isOver(sent.withLock { $0.count }) {
            let number = sent.withLock { sent in
                sent.append(UInt64(Clocks.monotonic()))
                return sent.count - 1
            }
            let text = "\(number):" + String(repeating: "x", count: 100)
            _ = try? await supervisor.submit(Payload(text: text))
            next += 20_000_000
            await pause(.nanoseconds(max(0, next - Clocks.monotonic())))
        }
        return sent.withLock { $0.count }
    }
    var times: [Double] = []
    let received = Locked(0)
    let reading = Task(executorPreference: EventLoop.shared) {
        var times: [Double] = []
        for await message in messages {
            let text = String(decoding: message.bytes, as: UTF8.self)
            guard let number = text.split(separator: ":").first.flatMap({ Int($0) }) else { continue }
            times.append(
                Double(UInt64(Clocks.monotonic()) - sent.withLock { number < $0.count ? $0[number] : 0 }) / 1e6
            )
            received.withLock { $0 += 1 }
        }
        return times
    }
    let count = await sending.value
    // The last answers.
    for _ in 0..<200 where received.withLock({ $0 }) < count { await pause(.milliseconds(50)) }
    reading.cancel()
    times = await reading.value
    if times.count < count { print("\(count - times.count) messages had no answer") }
    return times.sorted()
}

/// Cuts the connections so often while the file is sent, and in the middle replaces the server.
func cut(_ cuts: Int, of size: Int, _ host: Host, _ transfer: Transfer, _ endpoint: Endpoint) async throws {
    guard cuts > 0 else { return }
    var done = 0
    for await progress in transfer.progress where progress.bytes >= UInt64(size / (cuts + 1) * (done + 1)) {
        done += 1
        await host.cut()
        if done == (cuts + 1) / 2 {
            await host.stop()
            _ = try await host.start("\(endpoint)")
        }
        if done == cuts { return }
    }
}

func summary(_ name: String, _ times: [Double]) -> String {
    guard !times.isEmpty else { return "\(name): nothing" }
    func part(_ share: Double) -> String { String(format: "%.1f", times[Int(Double(times.count - 1) * share)]) }
    return "\(name): \(times.count) messages, p50 \(part(0.5)) ms, p99 \(part(0.99)) ms, longest \(part(1)) ms"
}

let network = try Network(words[2])
let lab = try NetworkLab()
lab.use(network, seed: 1)
let folder = NSTemporaryDirectory() + "transfer-\(UUID().uuidString)"
try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
defer { try? FileManager.default.removeItem(atPath: folder) }
var generator = RandomSource.seeded(7)
let content = Data((0..<size).map { _ in UInt8(truncatingIfNeeded: generator.next()) })
try content.write(to: URL(fileURLWithPath: folder + "/sent"))

let (clients, servers) = (try EventLoop(poller: .automatic), try EventLoop(poller: .automatic))
try lab.move(clients, to: .client)
try lab.move(servers, to: .server)
let host = Host(on: servers, target: folder + "/received")
let endpoint = try await host.start("\(words[1])://\(NetworkLab.serverHost):0")
var configuration = TransportConfiguration(endpoints: [endpoint])
configuration.supervisor.delivery.mode = .session
configuration.supervisor.backoff = .fixed(.milliseconds(50))
let supervisor = try Supervisor(configuration, on: clients)
let transfers = Transfers(over: supervisor)
supervisor.connect()

let alone = await chat(supervisor) { $0 >= 500 }
print(summary("alone", alone))
fflush(nil)
let began = Clocks.monotonic()
let transfer = try await transfers.send(contentsOf: folder + "/sent")
let isOver = Locked(false)
let cutting = Task { try await cut(cuts, of: size, host, transfer, endpoint) }
let waiting = Task {
    let result: TransferError?
    do throws(TransferError) {
        try await transfer.finished()
        result = nil
    } catch {
        result = error
    }
    let time = Double(Clocks.monotonic() - began) / 1e9
    isOver.withLock { $0 = true }
    return (result, time)
}
let beside = await chat(supervisor) { _ in isOver.withLock { $0 } }
let (failure, time) = await waiting.value
cutting.cancel()
print(summary("beside a file", beside))
let rate = network.rateToServer.map { String(format: ", %.1f %% of the rate", Double(size) * 800 / time / $0) } ?? ""
print("\(size) bytes in \(String(format: "%.2f", time)) s\(rate), \(cuts) cuts")
let received = try? Data(contentsOf: URL(fileURLWithPath: folder + "/received"))
print(failure.map { "failed: \($0)" } ?? (received == content ? "the file has arrived" : "the file is another one"))
await supervisor.close()
await host.stop()
exit(failure == nil && received == content ? 0 : 1)
