@testable import imbench

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The built command. It lies beside the tests, or some folders above them where those are a bundle.
enum BuiltProgram {
    static let path: String? = {
        var folder = Substring(CommandLine.arguments.first ?? "")
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            var information = stat()
            let path = folder + "/imbench"
            guard stat(String(path), &information) == 0 else { continue }
            if information.st_mode & S_IFMT == S_IFREG { return String(path) }
        }
        return nil
    }()
}

/// Runs what blocks its thread on a thread of its own, so that other tests keep theirs.
func apart<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    let (results, sink) = AsyncStream.makeStream(of: Result<Value, any Error>.self)
    let thread = try WorkerThread {
        sink.yield(Result { try body() })
        sink.finish()
    }
    defer { thread.join() }
    for await result in results { return try result.get() }
    throw CancellationError()
}
