import CommandSupport
import Foundation

extension Recipe {
    static let webSocketPicows = Recipe(name: "picows (Python)", workload: .webSocketRoundTrip, isInProcess: false) {
        try PicowsRoundTrip($0)
    }
}

/// picows, a WebSocket library for Python in Cython, on uvloop. Client and server are separate processes.
final class PicowsRoundTrip: Contender {
    private let process: ChildProcess

    init(_ stage: Stage) throws {
        let script = String(decoding: PackageResources.picows_round_trip_py, as: UTF8.self)
        let arguments = ["\(Workload.roundTripSize)", "\(stage.nearCore)", "\(stage.farCore)"]
        process = try ChildProcess(["/usr/bin/env", "python3", "-c", script] + arguments)
        let answer = try line()
        guard answer != "ready" else { return }
        // The status of env for a program that does not exist.
        let hasNoPython = answer.isEmpty && process.end() == .status(127)
        guard hasNoPython || answer.hasPrefix("missing") else {
            throw WrongResult(description: "picows does not start")
        }
        throw Missing(description: "Python's picows or uvloop is not installed (pip install picows uvloop)")
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        guard process.write("\(nanoseconds)"), let median = Double(try line()) else {
            throw WrongResult(description: "picows has ended")
        }
        return median
    }

    func close() { _ = process.end() }

    private func line() throws -> String {
        switch process.next(timeout: 30_000) {
        case .line(let line): line
        case .end: ""
        case .nothing, .tooLong: throw WrongResult(description: "picows does not answer")
        }
    }
}
