import Foundation
import Testing

/// Runs Python as a peer. One process takes all input through files, because its start costs more than all its work.
enum PythonPeer {
    /// A program that has failed, with its own words.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    static let isAvailable = isInstalled("python3")

    /// Why protoc and Python's protobuf do not work together in the way that the tests need; `nil` if they do. Generated
    /// code and the library fit only some versions of each other, so the probe makes, reads and writes a message.
    static let problemOfProtobuf: String? = {
        for program in ["protoc", "python3"] where !isInstalled(program) { return "\(program) is not installed" }
        do {
            for script in [PythonScripts.invent, PythonScripts.judge] {
                let arguments = ["AllTypes", "1", "1"]
                let parts = try answers(to: [[]], script: script, arguments: arguments, proto: AllTypes.proto)
                guard !parts.isEmpty else { return "Python's protobuf has answered nothing" }
            }
            return nil
        } catch {
            return "protoc and Python's protobuf do not work together: \(error)"
        }
    }()

    /// Runs `script` with `parts` as its input and returns its output. The script calls `more()`, `take()` and
    /// `give(part)`. Its own arguments begin at `sys.argv[3]`. The messages of `proto` are in the module `peer_pb2`.
    static func answers(
        to parts: [[UInt8]],
        script: String,
        arguments: [String] = [],
        proto: String? = nil
    ) throws -> [[UInt8]] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "codecs-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func path(_ name: String) -> String { folder.appending(path: name).path }

        if let proto {
            try Data(proto.utf8).write(to: folder.appending(path: "peer.proto"))
            try run("protoc", ["-I", folder.path, "--python_out", folder.path, "peer.proto"], log: path("log"))
        }
        try Data((prelude + script).utf8).write(to: folder.appending(path: "peer.py"))
        var input = Data()
        for part in parts {
            withUnsafeBytes(of: UInt32(part.count).littleEndian) { input.append(contentsOf: $0) }
            input.append(contentsOf: part)
        }
        try input.write(to: folder.appending(path: "input"))
        try run("python3", [path("peer.py"), path("input"), path("output")] + arguments, log: path("log"))
        return try split([UInt8](try Data(contentsOf: folder.appending(path: "output"))))
    }

    private static let prelude = """
        import struct, sys

        data = open(sys.argv[1], "rb").read()
        output = open(sys.argv[2], "wb")
        position = 0

        def more():
            return position < len(data)

        def take():
            global position
            (count,) = struct.unpack_from("<I", data, position)
            position += 4 + count
            return data[position - count:position]

        def give(part):
            output.write(struct.pack("<I", len(part)) + part)


        """

    private static func isInstalled(_ program: String) -> Bool {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").components(separatedBy: ":")
        return folders.contains { access("\($0)/\(program)", X_OK) == 0 }
    }

    /// Runs a program, whose output goes to the file `log`. The calls of the C library cannot miss its end.
    ///
    /// - Throws: ``Failure`` with the output, unless the program ends with status 0.
    private static func run(_ program: String, _ arguments: [String], log: String) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var words = ([program] + arguments).map { strdup($0) } + [nil]
        var environment = ProcessInfo.processInfo.environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for word in words + environment { free(word) } }
        var child = pid_t()
        let result = posix_spawnp(&child, program, &actions, nil, &words, &environment)
        guard result == 0 else { throw Failure(description: "\(program): \(String(cString: strerror(result)))") }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        guard status != 0 else { return }
        let code = status & 0x7f == 0 ? "status \(status >> 8 & 0xff)" : "signal \(status & 0x7f)"
        let output = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        throw Failure(description: "\(program) has ended with \(code): \(output.suffix(2000))")
    }

    private static func split(_ bytes: [UInt8]) throws -> [[UInt8]] {
        var parts: [[UInt8]] = []
        var position = 0
        while position + 4 <= bytes.count {
            let count = bytes[position..<position + 4].reversed().reduce(0) { $0 << 8 | Int($1) }
            position += 4
            guard count <= bytes.count - position else { throw Failure(description: "the output is cut") }
            parts.append(Array(bytes[position..<position + count]))
            position += count
        }
        return parts
    }
}

/// Cancels tests that need protoc and Python's protobuf, with the reason why these cannot be used. The probe runs only if such
/// a test does.
struct NeedsProtobufForPython: SuiteTrait, TestTrait {
    let isRecursive = true

    func prepare(for test: Test) async throws {
        if let problem = PythonPeer.problemOfProtobuf { try Test.cancel("\(problem)") }
    }
}

extension Trait where Self == NeedsProtobufForPython {
    /// The test needs protoc and Python's protobuf, in versions that work together.
    static var protobufForPython: Self { Self() }
}
