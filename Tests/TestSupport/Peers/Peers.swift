import Foundation
import Testing

/// The real servers and tools on this machine, and how to run them.
package enum Peers {
    package static let mosquitto = path("mosquitto")
    package static let mosquittoPub = path("mosquitto_pub")
    package static let mosquittoSub = path("mosquitto_sub")
    package static let mosquittoPasswd = path("mosquitto_passwd")
    package static let nats = path("nats-server")
    /// The script of the package for Debian that does not change the user.
    package static let rabbitmq = path("rabbitmq-server", in: ["/usr/lib/rabbitmq/bin"])
    /// The port mapper of Erlang, which RabbitMQ starts.
    package static let epmd = path("epmd")
    /// A Python whose `websockets` has what the scripts of the tests use.
    package static let webSockets = probe(
        "python3",
        "-c",
        """
        import websockets
        from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
        websockets.connect, websockets.serve
        """
    )
    package static var pythonWithWebSockets: String? { webSockets.path }
    /// A Python whose `paho-mqtt` has the callbacks of version 2.
    package static let paho = probe("python3", "-c", "from paho.mqtt.client import CallbackAPIVersion")
    package static var pythonWithPaho: String? { paho.path }
    package static let stompPy = probe("python3", "-c", "from stomp import Connection12")
    package static let coilmq = probe("python3", "-c", "import coilmq.start")
    /// It has no option that only answers, so that it is installed must suffice.
    package static let prosody =
        path("prosody").map { Probe(path: $0, problem: "") } ?? Probe(path: nil, problem: "prosody is not installed")
    /// The archive of the package for Debian, which a Java runs.
    package static let activemqArchive = path("activemq.jar", in: ["/usr/share/activemq/bin"], R_OK)
    /// The Java that runs ``activemqArchive``.
    package static let activemq =
        activemqArchive == nil ? Probe(path: nil, problem: "activemq is not installed") : probe("java", "-version")
    /// Ubuntu has a program of this name that only says how to install the browser.
    package static let browser = probe("chromium", "--version")
    package static var chromium: String? { browser.path }
    package static let nginx = path("nginx")
    package static let tinyproxy = path("tinyproxy")
    package static let squid = path("squid")
    package static let microsocks = path("microsocks")
    package static let danted = path("danted")
    package static let openssl = path("openssl")
    package static let curl = path("curl")
    /// The built command, which is in the folder of the tests.
    package static let imbench = beside("imbench")
    /// The program of `Tests/CloseAndExit`, which sends, closes and exits. It is in the folder of the tests.
    package static let closeAndExit = beside("CloseAndExit")
    /// The program of `Tests/SubmitUntilKilled`, an app with a store.
    package static let submitUntilKilled = beside("SubmitUntilKilled")
    /// The program of `Tests/ReceiveUntilKilled`, its counterpart.
    package static let receiveUntilKilled = beside("ReceiveUntilKilled")
    /// The program of `Tests/TransferBesideChat`, which sends a file beside messages over an emulated network.
    package static let transferBesideChat = beside("TransferBesideChat")
    package static let python = probe("python3", "-c", "import socket").path

    private static func path(_ name: String) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").components(separatedBy: ":")
        return path(name, in: folders + ["/usr/sbin"])
    }

    private static func path(_ name: String, in folders: [String], _ mode: Int32 = X_OK) -> String? {
        folders.map { "\($0)/\(name)" }.first { access($0, mode) == 0 }
    }

    private static func beside(_ name: String) -> String? {
        var folder = (CommandLine.arguments.first ?? "") as NSString
        while folder.length > 1 {
            folder = folder.deletingLastPathComponent as NSString
            let path = folder.appendingPathComponent(name)
            var isFolder: ObjCBool = false
            let isThere = FileManager.default.fileExists(atPath: path, isDirectory: &isFolder)
            if isThere, !isFolder.boolValue { return path }
        }
        return nil
    }

    /// Whether a peer works in the way that the tests need it.
    package struct Probe: Sendable {
        /// The program; `nil` if it does not work.
        package let path: String?
        /// Why it does not work, in its own words if it has started; empty if it works.
        package let problem: String
    }

    /// Runs a program with these arguments, which must end with status 0.
    private static func probe(_ name: String, _ arguments: String...) -> Probe {
        guard let path = path(name) else { return Probe(path: nil, problem: "\(name) is not installed") }
        do {
            let peer = try Peer(path, arguments)
            var words: [String] = []
            while let line = peer.line() { words.append(line) }
            let status = try peer.finish()
            guard status != 0 else { return Probe(path: path, problem: "") }
            let said = words.suffix(20).joined(separator: "\n")
            return Probe(path: nil, problem: "\(path) has ended with status \(status): \(said)")
        } catch {
            return Probe(path: nil, problem: "\(path) does not start: \(error)")
        }
    }
}

/// Cancels tests whose peer does not work, with the reason. The probe runs only if such a test does.
package struct NeedsPeer: SuiteTrait, TestTrait {
    fileprivate let probe: @Sendable () -> Peers.Probe
    package let isRecursive = true

    package func prepare(for test: Test) async throws {
        let probe = probe()
        if probe.path == nil { try Test.cancel("\(probe.problem)") }
    }
}

extension Trait where Self == NeedsPeer {
    /// The test needs this peer.
    package static func peer(_ probe: @autoclosure @escaping @Sendable () -> Peers.Probe) -> Self {
        NeedsPeer(probe: probe)
    }
}

/// A process that ends with its test. The C library spawns it and waits for it, so its end is noticed without any other
/// thread. No wait is longer than ``timeLimit``.
package final class Peer: @unchecked Sendable {
    // Unchecked, because one task at a time has it.

    /// In milliseconds. A peer that needs longer hangs.
    private static let timeLimit: Int32 = 60_000
    private let identifier: pid_t
    private let leadsGroup: Bool
    private let input: Int32
    private let output: Int32
    private var isInputOpen = true
    private var hasEnded = false
    private var unread: [UInt8] = []

    /// - Parameter leadsGroup: Whether the processes that it starts end with it.
    package init(_ executable: String, _ arguments: [String], leadsGroup: Bool = false) throws {
        var (toPeer, fromPeer): ([Int32], [Int32]) = ([0, 0], [0, 0])
        guard pipe(&toPeer) == 0, pipe(&fromPeer) == 0 else { throw POSIXError(.EMFILE) }
        for end in toPeer + fromPeer { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, toPeer[0], 0)
        posix_spawn_file_actions_adddup2(&actions, fromPeer[1], 1)
        posix_spawn_file_actions_adddup2(&actions, fromPeer[1], 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The process inherits no blocked or ignored signals.
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        let flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (leadsGroup ? POSIX_SPAWN_SETPGROUP : 0)
        posix_spawnattr_setflags(&attributes, Int16(flags))
        var words = ([executable] + arguments).map { strdup($0) } + [nil]
        var environment = ProcessInfo.processInfo.environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for word in words + environment { free(word) } }
        var child = pid_t()
        let result = posix_spawn(&child, executable, &actions, &attributes, &words, &environment)
        close(toPeer[0])
        close(fromPeer[1])
        (identifier, input, output, self.leadsGroup) = (child, toPeer[1], fromPeer[0], leadsGroup)
        hasEnded = result != 0
        guard result == 0 else { throw POSIXError(POSIXErrorCode(rawValue: result) ?? .ENOENT) }
    }

    deinit {
        if isInputOpen { close(input) }
        close(output)
        destroy()
    }

    /// The next line of the output, or `nil` at the end or when none comes.
    package func line() -> String? {
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            if let end = unread.firstIndex(of: 0x0a) {
                defer { unread.removeFirst(end + 1) }
                return String(decoding: unread[..<end], as: UTF8.self)
            }
            var readable = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
            guard poll(&readable, 1, Self.timeLimit) > 0 else { return nil }
            let count = read(output, &chunk, chunk.count)
            guard count > 0 else { return nil }
            unread += chunk.prefix(count)
        }
    }

    /// Reads lines up to one that contains `text`.
    package func wait(for text: String) -> Bool {
        while let line = line() { if line.contains(text) { return true } }
        return false
    }

    package func write(_ text: String) throws {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = Array(bytes).withUnsafeBytes { Foundation.write(input, $0.baseAddress, $0.count) }
            guard count > 0 else { throw POSIXError(.EPIPE) }
            bytes = bytes.dropFirst(count)
        }
    }

    package func signal(_ number: Int32) {
        if !hasEnded { _ = Foundation.kill(identifier, number) }
    }

    /// Kills the process, as a crash would, and waits for its end.
    package func destroy() {
        guard !hasEnded else { return }
        signal(SIGKILL)
        _ = wait()
    }

    /// Closes the input, waits for the end and returns the exit status, which is 255 after a signal. A process that
    /// does not end is killed.
    package func finish() throws -> Int32 {
        if isInputOpen { close(input) }
        isInputOpen = false
        return wait()
    }

    private func wait() -> Int32 {
        var status: Int32 = 0
        var left = Self.timeLimit
        while waitpid(identifier, &status, WNOHANG) == 0 {
            poll(nil, 0, 5)
            left -= 5
            if left == 0 { signal(SIGKILL) }
        }
        hasEnded = true
        if leadsGroup { _ = Foundation.kill(-identifier, SIGKILL) }
        return status & 0x7f == 0 ? status >> 8 & 0xff : 255
    }
}

/// A folder that is removed at the end of the test.
package final class ScratchFolder: Sendable {
    package let path = NSTemporaryDirectory() + "im-transports-" + UUID().uuidString

    package init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    package func write(_ name: String, _ text: String) throws -> String {
        try text.write(toFile: "\(path)/\(name)", atomically: true, encoding: .utf8)
        return "\(path)/\(name)"
    }
}

/// Runs blocking work on its own thread, because the tests share only a few threads.
package func aside<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try work() }) }
    }
}
