import Foundation
import Testing

@testable import imbench

/// The built command. It is in the folder of the tests, or in a folder above if the tests are a bundle.
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

    /// The outcome of one command.
    struct Outcome: Sendable {
        var output = ""
        var errors = ""
        var status: Int32
        /// Whether a signal ended it. The status is then the number of the signal.
        var wasKilled: Bool

        /// The lines on standard error.
        var errorLines: [Substring] { errors.split(separator: "\n", omittingEmptySubsequences: false).dropLast() }
    }

    /// Runs the command with these arguments and without input. Its standard error must fit in a pipe.
    ///
    /// - Parameter isOutputClosed: whether standard output is a pipe that is not read.
    static func run(_ words: [String], isOutputClosed: Bool = false) async throws -> Outcome {
        let path = try #require(path)
        return try await apart {
            let (output, errors) = (Pipe(), Pipe())
            let process = Process()
            process.executableURL = URL(fileURLWithPath: path)
            process.arguments = words
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = output
            process.standardError = errors
            if isOutputClosed { try output.fileHandleForReading.close() }
            try process.run()
            func text(_ pipe: Pipe) throws -> String {
                String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            }
            let written = isOutputClosed ? "" : try text(output)
            let messages = try text(errors)
            process.waitUntilExit()
            return Outcome(
                output: written,
                errors: messages,
                status: process.terminationStatus,
                wasKilled: process.terminationReason == .uncaughtSignal
            )
        }
    }
}

/// Runs blocking work on a separate thread, so that it does not block other tests.
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
