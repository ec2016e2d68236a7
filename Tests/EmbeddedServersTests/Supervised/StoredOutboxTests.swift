import EmbeddedServers
import Foundation
import TestSupport
import Testing
import Transports

@testable import OutboxStores

/// Tests supervisors whose configuration names a store, over a real connection.
@Suite("An outbox on disk", .timeLimit(.minutes(5)), .ownThread)
struct StoredOutboxTests {
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent("outbox-\(UUID().uuidString)")

    private func configuration(_ store: String, to url: String) throws -> TransportConfiguration {
        try TransportConfiguration(json: #"{"endpoints": ["\#(url)"], "outbox": {"store": "\#(store)"}}"#.utf8)
    }

    @Test(
        "Messages that a supervisor has accepted are sent by the next one, in order, and are gone afterwards",
        arguments: StoreLocation.Kind.allCases.filter { $0 == .file || SQLiteLibrary.shared != nil }
    )
    func next(kind: StoreLocation.Kind) async throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0")
        let path = "\(folder.path)/outbox"
        let configuration = try configuration("\(kind.rawValue):\(path)", to: "\(server.endpoint)")

        let offline = try Supervisor(configuration)
        for number in 1...100 { _ = try await offline.submit(Payload(text: "\(number)")) }
        // Only one process at a time has the store.
        let other = try Supervisor(configuration)
        await #expect(throws: TransportError.self) { _ = try await other.submit(Payload(text: "other")) }
        await other.close()
        await offline.close()

        let online = try Supervisor(configuration)
        var messages = online.messages.makeAsyncIterator()
        online.connect()
        for number in 1...100 { #expect(await messages.next()?.string == "\(number)") }
        _ = try await online.submit(Payload(text: "101"))
        #expect(await messages.next()?.string == "101")
        await online.close()

        let left = kind == .file ? FileOutboxStore(path: path) : SQLiteOutboxStore(path: path) as any OutboxStore
        #expect(try left.open() == [])
        left.close()
        await server.stop()
    }
}
