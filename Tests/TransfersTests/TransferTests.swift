import EmbeddedServers
import Foundation
import Primitives
import SocketIO
import TestSupport
import Testing
import Transfers
import TransportAPI
import Transports
import TrialCertificates

@Suite("Transfers over real connections", .timeLimit(.minutes(5)), .ownThread)
struct TransferTests {
    /// A session server whose sessions handle offers, and that can be replaced by another one.
    private final class Host: Sendable {
        private let state: Locked<(listener: any Listener, server: SessionServer)>
        private let listening: Endpoint
        private let configuration: TransferConfiguration
        private let handler: OfferHandler?
        let endpoint: Endpoint

        init(
            _ name: String,
            _ configuration: TransferConfiguration = .init(),
            _ handler: OfferHandler?
        ) async throws {
            (self.configuration, self.handler) = (configuration, handler)
            let registry = TransportRegistry.trial
            let listener = try await registry.listen(
                name == "memory" ? "memory://\(UUID().uuidString)" : "\(name)://127.0.0.1:0"
            )
            (listening, endpoint) = (listener.endpoint, listener.endpoint)
            state = Locked((listener, Self.serve(listener, configuration, handler)))
        }

        var server: SessionServer { state.withLock { $0.server } }

        private static func serve(
            _ listener: any Listener,
            _ configuration: TransferConfiguration,
            _ handler: OfferHandler?
        ) -> SessionServer {
            let server = SessionServer { session in
                Transfers(over: session, configuration).onOffer(handler)
                let messages = session.messages
                Task { for await message in messages { _ = await session.send(message) } }
            }
            Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
            return server
        }

        /// Ends the server without a word to its sessions, and begins another one.
        func replace() async throws {
            let (listener, server) = state.withLock { $0 }
            await listener.close()
            await server.dropConnections()
            let next = try await TransportRegistry.trial.listen("\(listening)")
            state.withLock { $0 = (next, Self.serve(next, configuration, handler)) }
        }

        func stop() async {
            let (listener, server) = state.withLock { $0 }
            await listener.close()
            await server.close()
        }
    }

    /// A client and its transfers.
    private struct Client {
        let supervisor: Supervisor
        let transfers: Transfers

        init(_ host: Host, _ configuration: TransferConfiguration = .init()) throws {
            var setting = TransportConfiguration(endpoints: [host.endpoint])
            setting.supervisor.delivery.mode = .session
            setting.supervisor.backoff = .fixed(.milliseconds(10))
            supervisor = try Supervisor(setting, registry: .trial)
            transfers = Transfers(over: supervisor, configuration)
            supervisor.connect()
        }
    }

    private let folder: ScratchFolder

    init() throws { folder = try ScratchFolder() }

    private static func content(_ count: Int) -> [UInt8] {
        var random = RandomSource.seeded(UInt64(count))
        return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    private static func once(_ bytes: [UInt8]) -> AsyncStream<[UInt8]> {
        AsyncStream {
            $0.yield(bytes)
            $0.finish()
        }
    }

    private func file(_ content: [UInt8], _ name: String = "picture") throws -> String {
        let path = "\(folder.path)/\(name)"
        try Data(content).write(to: URL(fileURLWithPath: path))
        return path
    }

    private func content(of path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    @Test(
        "A file arrives over every transport while messages go on",
        arguments: ["memory", "tcp", "ws", "http", "udp"] + (hasOpenSSL ? ["tls", "wss", "https", "dtls"] : [])
    )
    func file(scheme: String) async throws {
        let content = Self.content(700_001)
        let target = "\(folder.path)/received"
        let host = try await Host(scheme) { offer in
            #expect(offer.size == 700_001 && offer.name == "a picture")
            try await offer.write(to: target)
        }
        let client = try Client(host)
        let messages = client.supervisor.messages
        let transfer = try await client.transfers.send(contentsOf: try file(content), named: "a picture")
        for number in 0..<20 {
            #expect(await client.supervisor.send(bytes("\(number)")) == .acknowledged)
            #expect(await messages.first { _ in true } == bytes("\(number)"))
        }
        try await transfer.finished()
        let last = await transfer.progress.reduce(nil) { $1 }
        #expect(last == nil || last?.bytes == 700_001)
        let (arrived, left) = (try self.content(of: target), try names())
        #expect(arrived == content && left == ["picture", "received"])
        await client.supervisor.close()
        await host.stop()
    }

    @Test("A server sends to its client, and an empty file arrives too")
    func fromServer() async throws {
        let (done, finish) = AsyncStream.makeStream(of: Result<Void, TransferError>.self)
        let path = try file([])
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
        let server = SessionServer { session in
            let transfers = Transfers(over: session)
            Task {
                do throws(TransferError) {
                    try await transfers.send(contentsOf: path).finished()
                    finish.yield(.success(()))
                } catch {
                    finish.yield(.failure(error))
                }
            }
        }
        Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var setting = TransportConfiguration(endpoints: [listener.endpoint])
        setting.supervisor.delivery.mode = .session
        let supervisor = try Supervisor(setting)
        let target = "\(folder.path)/received"
        Transfers(over: supervisor).onOffer { try await $0.write(to: target) }
        supervisor.connect()
        let result = await done.first { _ in true }
        #expect(throws: Never.self) { try result?.get() }
        #expect(try content(of: target).isEmpty)
        await supervisor.close()
        await server.close()
        await listener.close()
    }

    @Test(
        "A sequence of an unknown size arrives as a sequence, each byte once, over cut connections",
        arguments: ["tcp", "udp"]
    )
    func sequence(scheme: String) async throws {
        let content = Self.content(300_000)
        let (received, give) = AsyncStream.makeStream(of: [UInt8].self)
        let host = try await Host(scheme) { offer in
            var all: [UInt8] = []
            for try await bytes in offer.bytes { all += bytes }
            give.yield(all)
        }
        var configuration = TransferConfiguration()
        configuration.window = 64 << 10
        let client = try Client(host, configuration)
        let (pieces, add) = AsyncStream.makeStream(of: [UInt8].self)
        let transfer = await client.transfers.send(pieces)
        for start in stride(from: 0, to: content.count, by: 60_000) {
            add.yield(Array(content[start..<start + 60_000]))
            _ = await transfer.progress.first { $0.bytes > start }
            await host.server.dropConnections()
        }
        add.finish()
        try await transfer.finished()
        #expect(await received.first { _ in true } == content)
        await client.supervisor.close()
        await host.stop()
    }

    @Test("After the restart of the server, and then of the client, the rest of a file is sent")
    func restarts() async throws {
        let content = Self.content(400_000)
        let path = try file(content)
        let target = "\(folder.path)/received"
        let offsets = Locked<[UInt64]>([])
        var limits = TransferConfiguration()
        limits.window = 64 << 10
        let host = try await Host("tcp", limits) { offer in
            let part = "\(target).\(offer.id).part"
            let size = (try? FileManager.default.attributesOfItem(atPath: part)[.size] as? UInt64) ?? 0
            offsets.withLock { $0.append(size) }
            try await offer.write(to: target)
        }
        let id = TransferID()
        let first = try Client(host, limits)
        // The first process has only a part of the bytes, so it cannot be done before it ends.
        let (pieces, add) = AsyncStream.makeStream(of: [UInt8].self)
        let begun = await first.transfers.send(pieces, size: 400_000, id: id)
        add.yield(Array(content[..<100_000]))
        _ = await begun.progress.first { $0.bytes > 50_000 }
        try await host.replace()
        add.yield(Array(content[100_000..<200_000]))
        _ = await begun.progress.first { $0.bytes > 150_000 }
        await first.supervisor.close()
        await #expect(throws: TransferError.self) { try await begun.finished() }

        let second = try Client(host, limits)
        try await second.transfers.send(contentsOf: path, id: id).finished()
        #expect(try self.content(of: target) == content)
        #expect(
            offsets.withLock { $0.count == 3 && $0[0] == 0 && $0[1] > 0 && $0[2] > $0[1] }
        )
        // One that is complete is not sent again.
        try await second.transfers.send(contentsOf: path, id: id).finished()
        await second.supervisor.close()
        await host.stop()
    }

    @Test(
        "A file goes through a broker to the other client",
        arguments: [
            ("mqtt", "?qos=1&publish=a&subscribe=b", "?qos=1&publish=b&subscribe=a"),
            (
                "stomp", "?receipt=on&publish=/topic/a&subscribe=/topic/b",
                "?receipt=on&publish=/topic/b&subscribe=/topic/a"
            ),
        ]
    )
    func broker(scheme: String, own: String, other: String) async throws {
        let broker = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        func client(_ options: String) throws -> Supervisor {
            let endpoint = try Endpoint("\(scheme)://127.0.0.1:\(broker.endpoint.port ?? 0)/\(options)")
            var configuration = TransportConfiguration(endpoints: [endpoint])
            configuration.supervisor.delivery.mode = .session
            return try Supervisor(configuration)
        }
        let (ann, ben) = (try client(own), try client(other))
        let target = "\(folder.path)/received"
        Transfers(over: ben).onOffer { try await $0.write(to: target) }
        let transfers = Transfers(over: ann)
        ben.connect()
        _ = await ben.states.first { $0.isOpen }
        ann.connect()
        let content = Self.content(100_000)
        try await transfers.send(contentsOf: try file(content)).finished()
        #expect(try self.content(of: target) == content)
        await ann.close()
        await ben.close()
        await broker.stop()
    }

    @Test("A refusal has its reason, and comes before bytes flow")
    func refused() async throws {
        var limits = TransferConfiguration()
        limits.maximumSize = 1000
        let host = try await Host("tcp", limits) { offer in
            if offer.name == "stranger" { return offer.refuse("not from strangers") }
            if offer.name == "ignored" { return }
            if offer.name == "failing" { throw CancellationError() }
            for try await _ in offer.bytes {}
        }
        let client = try Client(host)
        let pulled = Locked(0)
        func end(_ size: UInt64?, _ name: String, _ count: Int = 10) async -> TransferError? {
            let pieces = AsyncStream<[UInt8]> {
                pulled.withLock { $0 += 1 }
                return pulled.withLock { $0 } <= count ? [UInt8](repeating: 7, count: 200) : nil
            }
            pulled.withLock { $0 = 0 }
            do throws(TransferError) {
                try await client.transfers.send(pieces, size: size, named: name).finished()
                return nil
            } catch {
                return error
            }
        }
        func code(_ error: TransferError?) -> TransferRefusal.Code? {
            if case .refused(let refusal) = error { refusal.code } else { nil }
        }
        let (large, stranger) = (await end(1001, ""), await end(100, "stranger"))
        #expect(code(large) == .tooLarge)
        #expect(stranger == .refused(TransferRefusal(.refused, "not from strangers")))
        let (ignored, failing) = (await end(100, "ignored"), await end(100, "failing"))
        #expect(code(ignored) == .refused && code(failing) == .failed)
        #expect(pulled.withLock { $0 } == 0)
        // One that does not say how large it is is refused when it is too large.
        let (growing, exact) = (await end(nil, "", 6), await end(1000, "", 5))
        #expect(code(growing) == .tooLarge && exact == nil)
        let short = await end(1000, "", 4)
        guard case .source? = short else {
            Issue.record("a sequence that is too short")
            return
        }
        await client.supervisor.close()
        await host.stop()

        let mute = try await Host("tcp", .init(), nil)
        let asking = try Client(mute)
        let error = await #expect(throws: TransferError.self) {
            try await asking.transfers.send(contentsOf: try file([1])).finished()
        }
        #expect(code(error) == .noHandler)
        await asking.supervisor.close()
        await mute.stop()
    }

    @Test("An offer that waits behind messages has no answer yet, and is not given up")
    func waits() async throws {
        var configuration = SessionServer.Configuration()
        configuration.supervisor.messageBuffer = 1
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer(configuration) { session in
            Transfers(over: session).onOffer { for try await _ in $0.bytes {} }
            let messages = session.messages
            Task {
                _ = await gate.first { _ in true }
                for await _ in messages {}
            }
        }
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
        Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var setting = TransportConfiguration(endpoints: [listener.endpoint])
        setting.supervisor.delivery.mode = .session
        let supervisor = try Supervisor(setting)
        var limits = TransferConfiguration()
        limits.stallTimeout = .milliseconds(50)
        let transfers = Transfers(over: supervisor, limits)
        supervisor.connect()
        for number in 0..<8 { _ = try await supervisor.submit(bytes("\(number)")) }
        let transfer = await transfers.send(Self.once([1, 2, 3]))
        // A request behind them ends in its time limit, which is longer than that of the offer.
        await #expect(throws: RequestError.timedOut) {
            try await supervisor.request(bytes("?"), timeout: .milliseconds(300))
        }
        open.yield()
        try await transfer.finished()
        await supervisor.close()
        await listener.close()
        await server.close()
    }

    @Test("Either side cancels, and the other learns it")
    func cancels() async throws {
        let (ends, ended) = AsyncStream.makeStream(of: TransferError?.self)
        let host = try await Host("ws") { offer in
            do {
                for try await _ in offer.bytes { if offer.name == "unwanted" { return } }
                ended.yield(nil)
            } catch {
                ended.yield(error as? TransferError)
            }
        }
        let client = try Client(host)
        let (pieces, add) = AsyncStream.makeStream(of: [UInt8].self)
        add.yield([1, 2, 3])
        let transfer = await client.transfers.send(pieces)
        _ = await transfer.progress.first { _ in true }
        transfer.cancel()
        await #expect(throws: TransferError.cancelled) { try await transfer.finished() }
        guard case .refused(let refusal)? = await ends.first(where: { _ in true }) ?? nil else {
            Issue.record("the receiver did not learn it")
            return
        }
        #expect(refusal.code == .cancelled)
        let unwanted = await client.transfers.send(AsyncStream<[UInt8]> { [9] }, named: "unwanted")
        let error = await #expect(throws: TransferError.self) { try await unwanted.finished() }
        guard case .refused? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        await client.supervisor.close()
        await host.stop()
    }

    @Test("Bytes that another one has changed are found, and the next attempt begins anew")
    func corrupted() async throws {
        let content = Self.content(10_000)
        let path = try file(content)
        let target = "\(folder.path)/received"
        let host = try await Host("tcp") { try await $0.write(to: target) }
        let client = try Client(host)
        let id = TransferID()
        _ = try file([UInt8](repeating: 1, count: 500), "received.\(id).part")
        let error = await #expect(throws: TransferError.self) {
            try await client.transfers.send(contentsOf: path, id: id).finished()
        }
        guard case .refused(let refusal)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        let left = try names()
        #expect(refusal.code == .corrupted && left == ["picture"])
        try await client.transfers.send(contentsOf: path, id: id).finished()
        #expect(try self.content(of: target) == content)
        // A file with another content is not replaced.
        let other = try file([1, 2, 3], "other")
        await #expect(throws: TransferError.self) { try await client.transfers.send(contentsOf: other).finished() }
        #expect(try self.content(of: target) == content)
        await client.supervisor.close()
        await host.stop()
    }

    @Test("Files that cannot be read have a clear error")
    func unreadable() async throws {
        let host = try await Host("memory", .init(), nil)
        let client = try Client(host)
        for path in ["\(folder.path)/missing", folder.path] {
            let error = await #expect(throws: TransferError.self) { try await client.transfers.send(contentsOf: path) }
            guard case .file(let reason)? = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(reason.code == .storageFailed && reason.reason.contains(path))
        }
        await client.supervisor.close()
        await host.stop()
    }

    @Test("More than may be received at once are refused, and more than may be sent wait")
    func limits() async throws {
        let (release, go) = AsyncStream.makeStream(of: Void.self)
        var limits = TransferConfiguration()
        limits.maximumIncoming = 1
        let host = try await Host("tcp", limits) { offer in
            for await _ in release { break }
            for try await _ in offer.bytes {}
        }
        let client = try Client(host)
        let path = try file([1, 2, 3])
        var transfers: [Transfer] = []
        for _ in 0..<3 { transfers.append(try await client.transfers.send(contentsOf: path)) }
        // Any of the first two may be offered first.
        let failures = await withTaskGroup(of: Bool.self) { group in
            for transfer in transfers { group.addTask { (try? await transfer.finished()) == nil } }
            var failures = 0
            for await hasFailed in group {
                if hasFailed { failures += 1 }
                if failures == 2 { go.finish() }
            }
            return failures
        }
        #expect(failures == 2)
        await client.supervisor.close()
        await host.stop()
    }
}
