import CommandSupport
import Foundation
import Measuring
import Testing

/// A built command. It is in the folder of the tests, or in a folder above if the tests are a bundle.
package struct BuiltProgram: Sendable {
    package static let imbench = BuiltProgram(name: "imbench")
    package static let imlab = BuiltProgram(name: "imlab")

    /// `nil` if it was not built.
    package let path: String?

    private init(name: String) {
        var folder = Substring(CommandLine.arguments.first ?? "")
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            let path = String(folder + "/" + name)
            var isFolder: ObjCBool = false
            if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), !isFolder.boolValue {
                self.path = path
                return
            }
        }
        path = nil
    }

    /// The outcome of one command.
    package struct Outcome: Sendable {
        package var output = ""
        package var errors = ""
        package var status: Int32
        /// Whether a signal ended it. The status is then the number of the signal.
        package var wasKilled: Bool

        /// The lines on standard error.
        package var errorLines: [Substring] {
            errors.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        }
    }

    /// Runs the command with these arguments and without input. Its standard error must fit in a pipe.
    ///
    /// - Parameter isOutputClosed: whether standard output is a pipe that is not read.
    package func run(_ words: [String], isOutputClosed: Bool = false) async throws -> Outcome {
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

    #if os(Linux)
    /// Runs the command, interrupts it as soon as it handles that, and returns its output and how it ended.
    package func interrupt(_ words: [String]) async throws -> (text: String, ending: ChildProcess.Ending) {
        let program = try #require(path)
        return try await apart {
            let child = try ChildProcess([program] + words + ["--quiet"])
            while child.handlesInterrupt == false, case let event = child.next(timeout: 5), event != .end {}
            child.interrupt()
            var text = ""
            while true {
                switch child.next(timeout: 120_000) {
                case .line(let line): text += line + "\n"
                case .nothing, .tooLong, .end: return (text, child.end())
                }
            }
        }
    }
    #endif
}

/// Runs blocking work on a separate thread, so that it does not block other tests.
package func apart<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    let (results, sink) = AsyncStream.makeStream(of: Result<Value, any Error>.self)
    let thread = try WorkerThread {
        sink.yield(Result { try body() })
        sink.finish()
    }
    defer { thread.join() }
    for await result in results { return try result.get() }
    throw CancellationError()
}
