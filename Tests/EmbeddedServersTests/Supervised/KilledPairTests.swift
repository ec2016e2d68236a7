import Foundation
import TestSupport
import Testing
import Transports

@testable import OutboxStores

/// Kills two apps with SIGKILL while one sends to the other, at random one of them or both. `IM_APP_KILLS` sets how often; the
/// default is 4. With 50 kills, about 10,000 messages go through.
@Suite("Two apps that are killed", .serialized, .timeLimit(.minutes(15)), .ownThread)
struct KilledPairTests {
    private static let kills = ProcessInfo.processInfo.environment["IM_APP_KILLS"].flatMap(Int.init) ?? 4

    /// The two apps, their files, and what the sender has accepted.
    // Unchecked, because one thread at a time has it.
    private final class Pair: @unchecked Sendable {
        let folder: ScratchFolder
        private let sender: String
        private let receiver: String
        private let store: String
        /// The folder of the sender's store.
        let disk: String
        /// The arguments of the receiver, and of the sender before its store.
        private var receiving: [String]
        private var sending: String
        private(set) var accepted = 0
        /// The numbers with which a process began. The one before it may have submitted them too, and was killed before it could
        /// say so.
        private(set) var firsts: Set<Int> = []
        private var sendingApp: Peer?
        private var receivingApp: Peer?

        /// - Parameters:
        ///   - receiving: The receiver's URL, and its store if it is a client.
        ///   - sending: The sender's URL; `nil` for the one at which the receiver listens, with these options.
        init(_ kind: StoreLocation.Kind, receiving: [String], sending: String?, options: String = "") throws {
            folder = try ScratchFolder()
            sender = try #require(Peers.submitUntilKilled)
            receiver = try #require(Peers.receiveUntilKilled)
            disk = folder.path + "/disk"
            try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
            store = "\(kind.rawValue):\(disk)/outbox"
            self.receiving = receiving
            self.sending = sending ?? ""
            try startReceiver()
            // A client of a broker prints that it has subscribed.
            guard let line = receivingApp?.line(), sending == nil, let endpoint = try? Endpoint(line) else { return }
            var bare = endpoint
            bare.options = []
            self.sending = "\(bare)\(options)"
            // The next process listens at the same port.
            if var own = try? Endpoint(receiving[0]) {
                own.port = endpoint.port
                let query = receiving[0].split(separator: "?", maxSplits: 1).dropFirst().joined()
                own.options = []
                self.receiving[0] = "\(own)" + (query.isEmpty ? "" : "?\(query)")
            }
        }

        var log: String { folder.path + "/received" }

        private func startReceiver() throws {
            receivingApp = try Peer(receiver, [receiving[0], log] + receiving.dropFirst())
        }

        private func startSender() throws {
            firsts.insert(accepted + 1)
            sendingApp = try Peer(sender, [sending, store, "\(accepted + 1)"])
        }

        private func kill(_ app: inout Peer?) throws {
            app?.signal(SIGKILL)
            _ = try app?.finish()
            app = nil
        }

        /// Lets the sender submit this many messages, and then kills one app or both.
        func round(_ count: Int, killing victims: Int) throws {
            if receivingApp == nil { try startReceiver() }
            if sendingApp == nil { try startSender() }
            for _ in 0..<count { if let number = sendingApp?.line().flatMap({ Int($0) }) { accepted = number } }
            if victims != 1 {
                sendingApp?.signal(SIGKILL)
                // What it had accepted before it was killed.
                while let line = sendingApp?.line() { if let number = Int(line) { accepted = number } }
                try kill(&sendingApp)
            }
            if victims != 0 { try kill(&receivingApp) }
        }

        /// Waits until the last accepted message has arrived, and ends both apps.
        func finish() throws -> [Substring] {
            if sendingApp == nil { try startSender() }
            if receivingApp == nil { try startReceiver() }
            // A message behind the last one shows that it has arrived, or never will.
            let last = accepted
            while try accepted % 50 != 0 || highest() <= last, let line = sendingApp?.line() {
                if let number = Int(line) { accepted = number }
            }
            try kill(&sendingApp)
            try kill(&receivingApp)
            return try lines()
        }

        private func lines() throws -> [Substring] {
            try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
        }

        /// The greatest number that has arrived.
        private func highest() throws -> Int {
            try lines().reduce(0) { max($0, $1.split(separator: " ").last.flatMap { Int($0) } ?? 0) }
        }
    }

    private func check(
        _ pair: Pair,
        _ label: String,
        atEnd: @escaping @Sendable () throws -> String = { "" }
    ) async throws {
        let lines = try await aside {
            for _ in 0..<Self.kills {
                // The moment does not matter for the outcome, and a failure shows it by the numbers.
                try pair.round(Int.random(in: 100...300), killing: Int.random(in: 0...2))
            }
            let atLeast = pair.accepted
            let lines = try pair.finish()
            return (lines, atLeast, try atEnd())
        }
        var (identifiers, seen, repeated, unmarked, overtaken, highest) = (Set<Substring>(), Set<Int>(), 0, 0, 0, 0)
        for line in lines.0 {
            let parts = line.split(separator: " ")
            guard parts.count == 3, let number = Int(parts[2]) else {
                Issue.record("a line of the log: \(line)")
                continue
            }
            if identifiers.insert(parts[0]).inserted {
                let isNew = seen.insert(number).inserted
                #expect(isNew || pair.firsts.contains(number), "message \(number) has two identifiers")
                if isNew, number < highest { overtaken += 1 }
                highest = max(highest, number)
            } else {
                repeated += 1
                if parts[1] != "R" { unmarked += 1 }
            }
        }
        let lost = (1...max(1, lines.1)).filter { lines.1 > 0 && !seen.contains($0) }
        let counts = "\(lines.1) accepted, \(lost.count) lost, \(repeated) repeated, \(unmarked) of them unmarked"
        print("\(label): \(counts), \(Self.kills) kills", lines.2)
        #expect(lost == [] && overtaken == 0 && unmarked == 0, "\(lost.first ?? 0) to \(lost.last ?? 0) are lost")
    }

    private static let kinds = StoreLocation.Kind.allCases.filter { $0 == .file || SQLiteLibrary.shared != nil }

    @Test(
        "Every message that the sender has accepted arrives under one identifier, in order, whichever app is killed",
        arguments: kinds,
        ["tcp", "ws", "http"]
    )
    func server(kind: StoreLocation.Kind, transport: String) async throws {
        let pair = try Pair(kind, receiving: ["\(transport)://127.0.0.1:0"], sending: nil)
        try await check(pair, "\(kind.rawValue) over \(transport)")
    }

    @Test("The same over TLS", .enabled(if: hasOpenSSL), arguments: kinds)
    func encrypted(kind: StoreLocation.Kind) async throws {
        let certificates = try TestCertificates()
        let folder = try ScratchFolder()
        let certificate = try folder.write("certificate.pem", certificates.server.certificate)
        let key = try folder.write("key.pem", certificates.server.key)
        let authority = try folder.write("authority.pem", certificates.authority)
        let pair = try Pair(
            kind,
            receiving: ["tls://127.0.0.1:0?certificate=\(certificate)&key=\(key)"],
            sending: nil,
            options: "?ca=\(authority)"
        )
        try await check(pair, "\(kind.rawValue) over tls")
        withExtendedLifetime(folder) {}
    }

    @Test("The same through mosquitto, which is not killed", .enabled(if: Peers.mosquitto != nil), arguments: kinds)
    func broker(kind: StoreLocation.Kind) async throws {
        let broker = try await PeerTests.Mosquitto()
        let inbox = try ScratchFolder()
        func url(_ client: String, _ direction: String) -> String {
            "mqtt://127.0.0.1:\(broker.port)?\(direction)=killed&qos=1&clean-session=off&client-id=\(client)"
        }
        let pair = try Pair(
            kind,
            receiving: [url("receiver", "subscribe"), "\(kind.rawValue):\(inbox.path)/inbox"],
            sending: url("sender", "publish")
        )
        try await check(pair, "\(kind.rawValue) over mqtt")
        withExtendedLifetime(inbox) {}
    }

    @Test("The same on a disk that is full every now and then", .enabled(if: SmallDisk.isPossible), arguments: kinds)
    func fullDisk(kind: StoreLocation.Kind) async throws {
        let pair = try Pair(kind, receiving: ["tcp://127.0.0.1:0"], sending: nil)
        let disk = try SmallDisk(at: pair.disk)
        disk.begin()
        try await check(pair, "\(kind.rawValue) on a small disk") {
            try disk.end()
            return "\(disk.timesFull) times full"
        }
        #expect(disk.timesFull > 0)
    }
}

/// A file system of 4 MiB in memory, which a thread fills and empties.
private final class SmallDisk: @unchecked Sendable {
    // Unchecked, because the properties that change are locked.

    /// Whether this process may mount one.
    static let isPossible: Bool = {
        guard getuid() == 0, let folder = try? ScratchFolder(), let disk = try? SmallDisk(at: folder.path) else {
            return false
        }
        return (try? disk.end()) != nil
    }()

    private let path: String
    private let state = Locked((isOver: false, isDone: true, timesFull: 0))

    init(at path: String) throws {
        self.path = path
        try Self.run("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", path])
    }

    /// How often it was full.
    var timesFull: Int { state.withLock { $0.timesFull } }

    private static func run(_ program: String, _ arguments: [String]) throws {
        let paths = ["/usr/bin/\(program)", "/bin/\(program)"]
        guard let path = paths.first(where: { access($0, X_OK) == 0 }) else { throw POSIXError(.ENOENT) }
        guard try Peer(path, arguments).finish() == 0 else { throw POSIXError(.EPERM) }
    }

    func begin() {
        state.withLock { $0.isDone = false }
        Thread.detachNewThread { [self] in
            let chunk = [UInt8](repeating: 0, count: 16 << 10)
            while !state.withLock({ $0.isOver }) {
                let file = open("\(path)/ballast", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
                while write(file, chunk, chunk.count) == chunk.count {}
                state.withLock { $0.timesFull += 1 }
                Thread.sleep(forTimeInterval: .random(in: 0...0.05))
                ftruncate(file, 0)
                close(file)
                Thread.sleep(forTimeInterval: .random(in: 0.05...0.3))
            }
            state.withLock { $0.isDone = true }
        }
    }

    /// Empties it, so that the rest goes through.
    func stop() {
        state.withLock { $0.isOver = true }
        while !state.withLock({ $0.isDone }) { Thread.sleep(forTimeInterval: 0.01) }
    }

    func end() throws {
        stop()
        // A process that another test starts at this moment can still have its files.
        try Self.run("umount", ["-l", path])
    }
}
