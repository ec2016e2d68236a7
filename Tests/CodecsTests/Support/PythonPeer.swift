import Foundation

/// Google's protobuf for Python, as the other end: messages go in, and come back as it wrote them.
///
/// One process takes them all, through files, because starting one costs more than all its work.
struct PythonPeer {
    /// One message, three times: as Python wrote it in protobuf, as it printed it in JSON, and as it wrote it in protobuf
    /// after reading our JSON.
    struct Answer {
        var protobuf: [UInt8]
        var json: [UInt8]
        var fromJSON: [UInt8]
    }

    static let isAvailable =
        run("/bin/sh", ["-c", "command -v protoc >/dev/null && python3 -c 'import google.protobuf' 2>/dev/null"])

    /// Compiles the schema in `proto` and has every message of `messages` read and written.
    static func answers(
        proto: String,
        type: String,
        messages: [(protobuf: [UInt8], json: [UInt8])]
    ) throws -> [Answer] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "codecs-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func path(_ name: String) -> String { folder.appending(path: name).path }

        try Data(proto.utf8).write(to: folder.appending(path: "peer.proto"))
        try Data(script.utf8).write(to: folder.appending(path: "peer.py"))
        var input = Data()
        for message in messages {
            append(message.protobuf, to: &input)
            append(message.json, to: &input)
        }
        try input.write(to: folder.appending(path: "input"))
        guard run("/usr/bin/env", ["protoc", "-I", folder.path, "--python_out", folder.path, "peer.proto"]),
            run("/usr/bin/env", ["python3", path("peer.py"), type, path("input"), path("output")])
        else { throw Failure() }
        let parts = split([UInt8](try Data(contentsOf: folder.appending(path: "output"))))
        guard parts.count == messages.count * 3 else { throw Failure() }
        return stride(from: 0, to: parts.count, by: 3).map {
            Answer(protobuf: parts[$0], json: parts[$0 + 1], fromJSON: parts[$0 + 2])
        }
    }

    struct Failure: Error {}

    private static let script = """
        import struct, sys
        import peer_pb2
        from google.protobuf import json_format

        cls = getattr(peer_pb2, sys.argv[1])
        data = open(sys.argv[2], "rb").read()
        output = open(sys.argv[3], "wb")
        position = 0

        def take():
            global position
            (count,) = struct.unpack_from("<I", data, position)
            position += 4 + count
            return data[position - count:position]

        def give(part):
            output.write(struct.pack("<I", len(part)) + part)

        while position < len(data):
            message = cls.FromString(take())
            give(message.SerializeToString())
            give(json_format.MessageToJson(message).encode())
            give(json_format.Parse(take(), cls()).SerializeToString())
        """

    /// Whether the program ends with status 0. Spawned and waited for by the C library, which can't miss its end.
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

    private static func append(_ part: [UInt8], to data: inout Data) {
        withUnsafeBytes(of: UInt32(part.count).littleEndian) { data.append(contentsOf: $0) }
        data.append(contentsOf: part)
    }

    private static func split(_ bytes: [UInt8]) -> [[UInt8]] {
        var parts: [[UInt8]] = []
        var rest = bytes[...]
        while rest.count >= 4 {
            let count = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
            parts.append(Array(rest.dropFirst(4).prefix(count)))
            rest = rest.dropFirst(4 + count)
        }
        return parts
    }
}
