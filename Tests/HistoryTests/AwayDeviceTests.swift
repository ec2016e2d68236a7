import EmbeddedServers
import Foundation
import History
import OutboxStores
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// A chat server with a history. It sends each message with its number to all sessions, and answers the requests for pages. Its
/// store is on the disk, so another server can take its place.
private final class HistoryServer: Sendable {
    private static let room = "kitchen"

    private let history: History
    private let server: SessionServer
    private let listener: any Listener
    var endpoint: Endpoint { listener.endpoint }

    init(_ path: String, at url: String) async throws {
        let history = try await History(SQLiteHistory(path: path))
        let sessions = Locked<[Session]>([])
        let server = SessionServer { session in
            sessions.withLock { $0.append(session) }
            session.onRequest { request in
                let after = request.bytes.reduce(0) { $0 << 8 | UInt64($1) }
                let page = try await history.page(of: Self.room, after: after, HistoryPageLimit(count: 64))
                var bytes = Self.number(page.first) + Self.number(page.last)
                for entry in page.entries { bytes += [UInt8(entry.bytes.count)] + entry.bytes }
                return Payload(bytes)
            }
            let deliveries = session.deliveries
            Task {
                for await message in deliveries {
                    // The sender is in the message, and its identifier stays the same when it comes again.
                    let bytes = message.payload.bytes
                    let id = String(decoding: bytes, as: UTF8.self)
                    guard let number = try? await history.append(bytes, id: id, sender: "chat", to: Self.room) else {
                        continue
                    }
                    message.acknowledge()
                    for session in sessions.withLock({ $0 }) {
                        _ = try? await session.submit(Payload(Self.number(number) + bytes))
                    }
                }
            }
        }
        listener = try await TransportRegistry.standard.listen(url)
        (self.history, self.server) = (history, server)
        Task { [listener] in try await server.serve(listener) }
    }

    /// Ends without a word to its clients. What it has numbered is in the store.
    func stop() async {
        await listener.close()
        await server.dropConnections()
        await history.close()
    }

    static func number(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    static func entry(_ number: UInt64, _ bytes: some Sequence<UInt8>) -> HistoryEntry {
        let bytes = Array(bytes)
        return HistoryEntry(number: number, id: String(decoding: bytes, as: UTF8.self), sender: "chat", bytes: bytes)
    }
}

/// A device that shows the room, and asks for what it has missed.
private actor Device {
    let supervisor: Supervisor
    private var cursor = HistoryCursor()
    private(set) var shown: [HistoryEntry] = []
    private(set) var wasWrong = false

    init(_ endpoint: Endpoint) throws {
        var setting = TransportConfiguration(endpoints: [endpoint])
        setting.supervisor.delivery.mode = .session
        setting.supervisor.backoff = .fixed(.milliseconds(10))
        supervisor = try Supervisor(setting)
    }

    /// Shows the room until so many entries are shown.
    func show(_ count: Int) async {
        let (steps, add) = AsyncStream.makeStream(of: HistoryEntry?.self)
        let (states, messages) = (supervisor.states, supervisor.messages)
        let tasks = [
            Task { for await state in states where state.isOpen { add.yield(nil) } },
            Task {
                for await message in messages {
                    let number = message.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
                    add.yield(HistoryServer.entry(number, message.bytes.dropFirst(8)))
                }
            },
        ]
        supervisor.connect()
        for await entry in steps {
            await take(entry.map { cursor.receive($0) } ?? cursor.connected())
            if shown.count >= count { break }
        }
        for task in tasks { task.cancel() }
    }

    private func take(_ step: HistoryCursor.Step) async {
        var step = step
        while true {
            shown += step.entries
            if step.missing != nil || step.hasRestarted { wasWrong = true }
            guard let request = step.request else { return }
            // The server may be replaced meanwhile; the next connection asks again.
            guard
                let answer = try? await supervisor.request(
                    Payload(HistoryServer.number(request)),
                    timeout: .seconds(20)
                )
            else { return }
            step = cursor.receive(Self.page(answer.bytes, after: request))
        }
    }

    private static func page(_ bytes: [UInt8], after: UInt64) -> HistoryPage {
        func number(_ start: Int) -> UInt64 { bytes[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        var (rest, next, entries) = (bytes.dropFirst(16), after, [HistoryEntry]())
        while let length = rest.first {
            next += 1
            entries.append(HistoryServer.entry(next, rest.dropFirst().prefix(Int(length))))
            rest = rest.dropFirst(Int(length) + 1)
        }
        return HistoryPage(entries: entries, first: number(0), last: number(8))
    }
}

@Suite("A device that was away", .enabled(if: SQLiteLibrary.shared != nil), .ownThread, .timeLimit(.minutes(3)))
struct AwayDeviceTests {
    @Test("It gets what it has missed without a gap, each once, through replaced servers", arguments: ["tcp", "ws"])
    func away(scheme: String) async throws {
        let folder = try ScratchFolder()
        let path = "\(folder.path)/history"
        var server = try await HistoryServer(path, at: "\(scheme)://127.0.0.1:0")
        let url = "\(server.endpoint)"
        let devices = try ["ann", "ben", "eve"].map { _ in try Device(try Endpoint(url)) }
        // Two chat, and see each other.
        let present = devices[..<2].map { device in Task { await device.show(1000) } }
        let chats = ["ann", "ben"].enumerated().map { index, name in
            Task { [supervisor = devices[index].supervisor] in
                for number in 0..<500 { _ = try await supervisor.submit(Payload(Array("\(name) \(number)".utf8))) }
            }
        }
        let (progress, moved) = AsyncStream.makeStream(of: Void.self)
        let watch = Task {
            for threshold in [200, 500, 800] {
                while await devices[0].shown.count < threshold { await Task.yield() }
                moved.yield()
            }
            moved.finish()
        }
        for await _ in progress {
            await server.stop()
            server = try await HistoryServer(path, at: url)
        }
        await watch.value
        for chat in chats { try await chat.value }
        for task in present { await task.value }
        // Then the third one comes back.
        await devices[2].show(1000)
        let expected = Set((0..<500).flatMap { ["ann \($0)", "ben \($0)"] })
        let history = await devices[2].shown
        for device in devices {
            let (shown, wasWrong) = (await device.shown, await device.wasWrong)
            #expect(shown.map(\.number) == Array(1...1000) && Set(shown.map(\.id)) == expected && !wasWrong)
            #expect(shown == history)
        }
        for device in devices { await device.supervisor.close() }
        await server.stop()
    }
}
