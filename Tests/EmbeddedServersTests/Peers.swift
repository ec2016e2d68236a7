import Foundation

/// The real servers and tools that are on this machine, and running them.
enum Peers {
    static let mosquitto = path("mosquitto")
    static let mosquittoPub = path("mosquitto_pub")
    static let mosquittoSub = path("mosquitto_sub")
    static let mosquittoPasswd = path("mosquitto_passwd")
    static let protoc = path("protoc")
    /// A Python that has the `websockets` package.
    static let pythonWithWebSockets = python(importing: "websockets")
    /// A Python that has the `protobuf` package.
    static let pythonWithProtobuf = python(importing: "google.protobuf")

    private static func path(_ name: String) -> String? {
        var folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").components(separatedBy: ":")
        folders.append("/usr/sbin")
        return folders.map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }

    private static func python(importing module: String) -> String? {
        guard let python = path("python3") else { return nil }
        let probe = Process()
        probe.executableURL = URL(fileURLWithPath: python)
        probe.arguments = ["-c", "import \(module)"]
        probe.standardError = FileHandle.nullDevice
        guard (try? probe.run()) != nil else { return nil }
        probe.waitUntilExit()
        return probe.terminationStatus == 0 ? python : nil
    }
}

/// A process of a test's own, ended with the test.
final class Peer {
    private let process = Process()
    let input = Pipe()
    private let output = Pipe()
    private var unread = Data()

    init(_ executable: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: executable)
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.run()
    }

    deinit {
        if process.isRunning { process.terminate() }
    }

    /// The next line of its output; `nil` at the end.
    func line() -> String? {
        while true {
            if let end = unread.firstIndex(of: 0x0a) {
                defer { unread = Data(unread[unread.index(after: end)...]) }
                return String(decoding: unread[..<end], as: UTF8.self)
            }
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { return nil }
            unread += more
        }
    }

    /// Reads lines up to one that contains `text`.
    func wait(for text: String) -> Bool {
        while let line = line() { if line.contains(text) { return true } }
        return false
    }

    func write(_ text: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
    }

    /// Closes its input, waits for its end and gives its status.
    func finish() throws -> Int32 {
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        return process.terminationStatus
    }
}

/// A folder that is gone when the test is.
final class ScratchFolder {
    let path = NSTemporaryDirectory() + "im-transports-" + UUID().uuidString

    init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func write(_ name: String, _ text: String) throws -> String {
        try text.write(toFile: "\(path)/\(name)", atomically: true, encoding: .utf8)
        return "\(path)/\(name)"
    }
}
