import Foundation

extension Recipe {
    static let webSocketPicows = Recipe(name: "picows (Python)", workload: .webSocketRoundTrip) {
        try PicowsRoundTrip($0)
    }
}

/// picows, a WebSocket library for Python in Cython, on uvloop: client and server in processes of their own.
final class PicowsRoundTrip: Contender {
    private let process: ChildProcess

    init(_ stage: Stage) throws {
        let script = String(decoding: PackageResources.picows_round_trip_py, as: UTF8.self)
        let cores = [stage.placement?.near ?? -1, stage.placement?.far ?? -1]
        process = try ChildProcess(
            ["/usr/bin/env", "python3", "-c", script, "\(Workload.roundTripSize)"] + cores.map { "\($0)" }
        )
        guard try line() == "ready" else {
            throw Missing(description: "Python's picows or uvloop is not installed (pip install picows uvloop)")
        }
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
        case .nothing, .tooLong: throw WrongResult(description: "picows says nothing")
        }
    }
}
