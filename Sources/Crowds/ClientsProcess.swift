import CommandSupport
import Foundation
import TransportAPI
import TrialCertificates

/// The child process with the clients of a crowd. It is a failure if it ends early, sends an unexpected answer, or sends none
/// in time.
package struct ClientsProcess {
    /// Each connection needs a local port for the same address of the server. Linux has 28,000 by default.
    package static let connectionsPerAddress = 20_000

    /// How many addresses this number of connections needs.
    package static func addresses(_ connections: Int) -> Int { (connections - 1) / connectionsPerAddress + 1 }

    /// The command line that starts the clients. The help omits it, because only this program uses it.
    package static let word = "crowd-clients"

    private let child: ChildProcess
    private let answerTimeout: Int64

    /// Starts a program, by default this one. `answerTimeout` is the time limit of each answer, beyond the time of the work
    /// itself.
    package init(_ program: [String]?, answerTimeout: Duration) throws(SystemFailure) {
        guard let words = program ?? Bundle.main.executablePath.map({ [$0, Self.word] }) else {
            throw SystemFailure("the path of this program is unknown, so it cannot start its clients")
        }
        // The servers of this process may be encrypted, and a certificate is no secret.
        let authority = (try? TrialTLS.credentials.get().authority).map { [$0] } ?? []
        child = try ChildProcess(words + authority)
        self.answerTimeout = answerTimeout.wholeNanoseconds
    }

    package typealias Connected = (connections: Int, nanoseconds: Int64, heap: Int?)

    /// Connects the clients. There are fewer than requested only after an interruption.
    ///
    /// - Parameter use: the behaviour of the clients afterwards.
    package func connect(
        _ transport: String,
        _ connections: Int,
        _ ports: [UInt16],
        for use: CrowdRequest.Use = .idle
    ) throws(SystemFailure) -> Connected {
        // A slow machine makes a hundred handshakes per second.
        let answer = try request(
            .connect(transport: transport, connections: connections, ports: ports, use: use),
            Int64(connections) * 10_000_000
        )
        guard case .connected(let count, let nanoseconds, let heap) = answer,
            count == connections || count < connections && Interruption.isRequested
        else { throw Self.unexpected(answer) }
        return (count, nanoseconds, heap)
    }

    package typealias Pinged = (pings: Int, pongs: Int, p50: Int64?, p99: Int64?)

    /// Holds the connections for a time, and pings each of `connections` connections once meanwhile. Returns `nil` if their
    /// protocol has no ping.
    package func ping(_ connections: Int, over hold: Duration) throws(SystemFailure) -> Pinged? {
        let answer = try request(.ping(nanoseconds: hold.wholeNanoseconds), hold.wholeNanoseconds)
        if case .held = answer { return nil }
        guard case .pinged(let pings, let pongs, let p50, let p99) = answer,
            pings == connections || pings < connections && Interruption.isRequested
        else { throw Self.unexpected(answer) }
        return (pings, pongs, p50, p99)
    }

    /// Sends `bytes` over each of `connections` connections and receives them back, waits a second, and returns the bytes of
    /// heap of all connections, if known.
    package func transfer(_ connections: Int, bytes: Int) throws(SystemFailure) -> Int? {
        // A slow machine moves 20 MB per second.
        let answer = try request(.transfer(bytes: bytes), Int64(connections) * Int64(bytes) * 50 + 1_000_000_000)
        guard case .transferred(let heap) = answer else { throw Self.unexpected(answer) }
        return heap
    }

    /// Closes the connections and ends the process.
    package func end() throws(SystemFailure) {
        let answer = try request(.close, 0)
        guard answer == .closed else { throw Self.unexpected(answer) }
        let ending = child.end()
        guard ending == .status(ExitStatus.good) else { throw Self.ended(ending) }
    }

    /// The answer to a request that takes `work` nanoseconds.
    private func request(_ request: CrowdRequest, _ work: Int64) throws(SystemFailure) -> CrowdAnswer {
        let end = Clocks.monotonic() + work + answerTimeout
        guard child.write(request.line) else { throw Self.ended(child.end()) }
        var isStopped = false
        while true {
            // Ctrl-C does not reach the child process.
            if Interruption.isRequested, !isStopped { isStopped = child.write(CrowdRequest.stop) }
            switch child.next(timeout: 100) {
            case .line(let line):
                let answer = try CrowdAnswer(line)
                if case .failed(let sentence) = answer { throw SystemFailure("the clients failed: \(sentence)") }
                return answer
            case .tooLong: throw SystemFailure("the clients' process sent a line over the limit")
            case .end: throw Self.ended(child.end())
            case .nothing:
                guard Clocks.monotonic() < end else {
                    throw SystemFailure(
                        "the clients' process did not answer '\(request.line.prefix { $0 != " " })' in time"
                    )
                }
            }
        }
    }

    private static func unexpected(_ answer: CrowdAnswer) -> SystemFailure {
        SystemFailure("the clients' process sent the unexpected answer '\(answer.line)'")
    }

    private static func ended(_ ending: ChildProcess.Ending) -> SystemFailure {
        switch ending {
        case .status(let status): SystemFailure("the clients' process ended with status \(status)")
        case .signal(let number): SystemFailure("the clients' process was ended by signal \(number)")
        }
    }
}

/// A request to the process of the clients, one per line. Each has one ``CrowdAnswer``.
package enum CrowdRequest: Sendable, Equatable {
    /// Connect this number of clients: the first ``IdleCrowd/connectionsPerAddress`` to the first port at 127.0.0.1, the next
    /// ones to the second port at 127.0.0.2, and so on. If they will transfer bytes, each receives what it sends.
    case connect(transport: String, connections: Int, ports: [UInt16], use: Use)
    /// Ping each connection once, spread over these nanoseconds.
    case ping(nanoseconds: Int64)
    /// Send so many bytes over each connection, and receive them back.
    case transfer(bytes: Int)
    /// Close all connections.
    case close

    /// The behaviour of clients after they have connected. The raw value is the word in a request.
    package enum Use: String, Sendable {
        case idle, transfer
    }

    /// The line that ends the present request and all later ones early. It has no answer.
    static let stop = "stop"

    /// Reads a line. Its numbers must be in the ranges of the options.
    init(_ line: String) throws(SystemFailure) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        switch (words.first, words.count) {
        case ("connect", 5...):
            let transport = String(words[1])
            let ports = words.dropFirst(4).compactMap { number($0, in: 1...65535) }.map { UInt16($0) }
            guard CrowdLimits.transports.contains(transport),
                let connections = number(words[2], in: 1...Int64(CrowdLimits.mostConnections)),
                let use = Use(rawValue: String(words[3])),
                ports.count == words.count - 4,
                ports.count == ClientsProcess.addresses(Int(connections))
            else { throw invalidLine(line) }
            self = .connect(transport: transport, connections: Int(connections), ports: ports, use: use)
        case ("ping", 2):
            guard let time = number(words[1], in: 0...3_600_000_000_000) else { throw invalidLine(line) }
            self = .ping(nanoseconds: time)
        case ("transfer", 2):
            guard let bytes = number(words[1], in: 1...Int64(CrowdLimits.mostTransferred)) else {
                throw invalidLine(line)
            }
            self = .transfer(bytes: Int(bytes))
        case ("close", 1): self = .close
        default: throw invalidLine(line)
        }
    }

    var line: String {
        switch self {
        case .connect(let transport, let connections, let ports, let use):
            (["connect", transport, String(connections), use.rawValue] + ports.map { String($0) }).joined(
                separator: " "
            )
        case .ping(let nanoseconds): "ping \(nanoseconds)"
        case .transfer(let bytes): "transfer \(bytes)"
        case .close: "close"
        }
    }
}

/// An answer of the clients, one per line.
package enum CrowdAnswer: Sendable, Equatable {
    /// The number of connections, the time to connect them, and the bytes of heap of all of them, if known.
    case connected(connections: Int, nanoseconds: Int64, heap: Int?)
    /// The numbers of pings and pongs, and the percentiles of the round trips, if there are enough for one.
    case pinged(pings: Int, pongs: Int, p50: Int64?, p99: Int64?)
    /// The connections were held and not pinged, because their protocol has no ping.
    case held
    /// The bytes of heap of all connections a second after the transfer, if known.
    case transferred(heap: Int?)
    case closed
    /// The request failed, with the reason.
    case failed(String)

    /// The longest reason of a failure, in characters.
    private static let longestSentence = 400

    /// Reads a line.
    init(_ line: String) throws(SystemFailure) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        let (counts, times) = (0...Int64(CrowdLimits.mostConnections), 0...Int64.max)
        let heaps: ClosedRange<Int64> = -(1 << 50)...(1 << 50)
        switch (words.first, words.count) {
        case ("connected", 4):
            guard let connections = number(words[1], in: counts), let time = number(words[2], in: times),
                let heap = optional(words[3], in: heaps)
            else { throw invalidLine(line) }
            self = .connected(connections: Int(connections), nanoseconds: time, heap: heap.map { Int($0) })
        case ("pinged", 5):
            guard let pings = number(words[1], in: counts), let pongs = number(words[2], in: 0...pings),
                let p50 = optional(words[3], in: times), let p99 = optional(words[4], in: times)
            else { throw invalidLine(line) }
            self = .pinged(pings: Int(pings), pongs: Int(pongs), p50: p50, p99: p99)
        case ("transferred", 2):
            guard let heap = optional(words[1], in: heaps) else { throw invalidLine(line) }
            self = .transferred(heap: heap.map { Int($0) })
        case ("held", 1): self = .held
        case ("closed", 1): self = .closed
        case ("failed", 2...): self = .failed(printable(line.dropFirst("failed ".count), Self.longestSentence))
        default: throw invalidLine(line)
        }
    }

    var line: String {
        switch self {
        case .connected(let connections, let nanoseconds, let heap):
            "connected \(connections) \(nanoseconds) \(heap.map { String($0) } ?? "-")"
        case .pinged(let pings, let pongs, let p50, let p99):
            "pinged \(pings) \(pongs) \(p50.map { String($0) } ?? "-") \(p99.map { String($0) } ?? "-")"
        case .transferred(let heap): "transferred \(heap.map { String($0) } ?? "-")"
        case .held: "held"
        case .closed: "closed"
        case .failed(let sentence): "failed " + printable(sentence[...], Self.longestSentence)
        }
    }
}

private func number(_ word: Substring, in range: ClosedRange<Int64>) -> Int64? {
    Int64(word).flatMap { range.contains($0) ? $0 : nil }
}

/// A number, or `-` for none; `nil` if it is neither.
private func optional(_ word: Substring, in range: ClosedRange<Int64>) -> Int64?? {
    word == "-" ? .some(nil) : number(word, in: range).map { .some($0) }
}

private func invalidLine(_ line: String) -> SystemFailure {
    SystemFailure("invalid line from the other process: '\(printable(line[...], 60))'")
}

/// The beginning of a text, with spaces for ends of lines and control characters.
private func printable(_ text: Substring, _ limit: Int) -> String {
    let isControl = { (scalar: Unicode.Scalar) in scalar.value < 32 || 127...159 ~= scalar.value }
    return String(text.prefix(limit).map { $0.unicodeScalars.contains(where: isControl) ? " " : $0 })
}
