import Foundation

/// Runs Python as a peer. One process takes all input through files, because its start costs more than all its work.
enum PythonPeer {
    struct Failure: Error {}

    static let isAvailable = run("/bin/sh", ["-c", "command -v python3 >/dev/null"])
    static let hasProtobuf =
        run("/bin/sh", ["-c", "command -v protoc >/dev/null && python3 -c 'import google.protobuf' 2>/dev/null"])

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
            guard run("/usr/bin/env", ["protoc", "-I", folder.path, "--python_out", folder.path, "peer.proto"])
            else { throw Failure() }
        }
        try Data((prelude + script).utf8).write(to: folder.appending(path: "peer.py"))
        var input = Data()
        for part in parts {
            withUnsafeBytes(of: UInt32(part.count).littleEndian) { input.append(contentsOf: $0) }
            input.append(contentsOf: part)
        }
        try input.write(to: folder.appending(path: "input"))
        guard run("/usr/bin/env", ["python3", path("peer.py"), path("input"), path("output")] + arguments)
        else { throw Failure() }
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

    /// Runs a program and returns whether it ends with status 0. The calls of the C library cannot miss its end.
    private static func run(_ executable: String, _ arguments: [String]) -> Bool {
        var words = ([executable] + arguments).map { strdup($0) } + [nil]
        var environment = ProcessInfo.processInfo.environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for word in words + environment { free(word) } }
        var child = pid_t()
        guard posix_spawn(&child, executable, nil, nil, &words, &environment) == 0 else { return false }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return status == 0
    }

    private static func split(_ bytes: [UInt8]) throws -> [[UInt8]] {
        var parts: [[UInt8]] = []
        var position = 0
        while position + 4 <= bytes.count {
            let count = bytes[position..<position + 4].reversed().reduce(0) { $0 << 8 | Int($1) }
            position += 4
            guard count <= bytes.count - position else { throw Failure() }
            parts.append(Array(bytes[position..<position + count]))
            position += count
        }
        return parts
    }
}
