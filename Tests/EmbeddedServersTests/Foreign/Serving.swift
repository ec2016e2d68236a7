import Foundation
import TestSupport
import Testing

/// `imbench serve` as a user starts it: in its own process, on a port that the system chooses.
final class Serving: Sendable {
    let port: UInt16
    private let process: Peer

    /// Serves at `url`, which must have port 0 of 127.0.0.1, with further options.
    static func start(_ url: String, _ options: String...) async throws -> Serving {
        try await aside { try Serving(url, options) }
    }

    private init(_ url: String, _ options: [String]) throws {
        process = try Peer(try #require(Peers.imbench), ["serve", "--quiet", "--listen", url] + options)
        let line = try #require(process.line())
        let address = try #require(line.firstRange(of: /127\.0\.0\.1:[0-9]+/))
        port = try #require(UInt16(line[address].dropFirst("127.0.0.1:".count)))
    }

    /// Stops or continues the process.
    func signal(_ number: Int32) {
        process.signal(number)
    }

    /// Sends SIGINT, as Ctrl-C does, and returns the exit status.
    func interrupt() async throws -> Int32 {
        try await aside { [process] in
            process.signal(SIGINT)
            return try process.finish()
        }
    }
}

/// Programs of other projects that run against our servers.
enum Foreign {
    /// The folder of the scripts and pages.
    static let support = (#filePath as NSString).deletingLastPathComponent + "/Support"

    /// Runs a script of ``support`` to its end. Returns its output, and its status if that is not 0.
    static func run(_ script: String, with python: String?, _ arguments: [String]) async throws -> [String] {
        let python = try #require(python)
        return try await aside {
            let peer = try Peer(python, ["\(support)/\(script)"] + arguments)
            var lines: [String] = []
            while let line = peer.line() { lines.append(line) }
            let status = try peer.finish()
            return status == 0 ? lines : lines + ["status \(status)"]
        }
    }
}
