import Foundation

@testable import imbench

/// The built command. It lies beside the tests, or some folders above them where those are a bundle.
enum BuiltProgram {
    static let path: String? = {
        var folder = Substring(CommandLine.arguments.first ?? "")
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            let path = String(folder + "/imbench")
            var isFolder: ObjCBool = false
            if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), !isFolder.boolValue { return path }
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
