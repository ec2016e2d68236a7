/// What the server's half of a crowd asks of the clients' half, a line each. Each is answered with one ``CrowdAnswer``.
enum CrowdRequest: Sendable, Equatable {
    /// Connect so many clients: the first ``IdleCrowd/connectionsPerAddress`` to the first port at 127.0.0.1, the next
    /// ones to the second port at 127.0.0.2, and so on.
    case connect(transport: String, connections: Int, ports: [UInt16])
    /// Ping each connection once, spread over these nanoseconds.
    case ping(nanoseconds: Int64)
    /// Close all connections.
    case close

    /// The line that cuts short what is under way and what comes after it. It has no answer of its own.
    static let stop = "stop"

    /// Reads a line, whose numbers are within what the options allow.
    init(_ line: String) throws(SystemFailure) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        switch (words.first, words.count) {
        case ("connect", 4...):
            let transport = String(words[1])
            let ports = words.dropFirst(3).compactMap { number($0, in: 1...65535) }.map { UInt16($0) }
            guard CrowdOptions.transports.contains(transport),
                let connections = number(words[2], in: 1...Int64(CrowdOptions.mostConnections)),
                ports.count == words.count - 3,
                ports.count == IdleCrowd.addresses(Int(connections))
            else { throw nonsense(line) }
            self = .connect(transport: transport, connections: Int(connections), ports: ports)
        case ("ping", 2):
            guard let time = number(words[1], in: 0...3_600_000_000_000) else { throw nonsense(line) }
            self = .ping(nanoseconds: time)
        case ("close", 1): self = .close
        default: throw nonsense(line)
        }
    }

    var line: String {
        switch self {
        case .connect(let transport, let connections, let ports):
            (["connect", transport, String(connections)] + ports.map { String($0) }).joined(separator: " ")
        case .ping(let nanoseconds): "ping \(nanoseconds)"
        case .close: "close"
        }
    }
}

/// What the clients' half answers, a line each.
enum CrowdAnswer: Sendable, Equatable {
    /// So many are connected, which took these nanoseconds, and so many bytes of heap in all, where they can be told.
    case connected(connections: Int, nanoseconds: Int64, heap: Int?)
    /// So many pings were sent and answered, the latter in these nanoseconds at the 50th and 99th percentile, if they are
    /// enough for one.
    case pinged(pings: Int, pongs: Int, p50: Int64?, p99: Int64?)
    case closed
    /// What was asked could not be done, and why.
    case failed(String)

    /// The longest sentence of a failure that is passed on, in characters.
    private static let longestSentence = 400

    /// Reads a line.
    init(_ line: String) throws(SystemFailure) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        let (counts, times) = (0...Int64(CrowdOptions.mostConnections), 0...Int64.max)
        switch (words.first, words.count) {
        case ("connected", 4):
            guard let connections = number(words[1], in: counts), let time = number(words[2], in: times),
                let heap = optional(words[3], in: -(1 << 50)...(1 << 50))
            else { throw nonsense(line) }
            self = .connected(connections: Int(connections), nanoseconds: time, heap: heap.map { Int($0) })
        case ("pinged", 5):
            guard let pings = number(words[1], in: counts), let pongs = number(words[2], in: 0...pings),
                let p50 = optional(words[3], in: times), let p99 = optional(words[4], in: times)
            else { throw nonsense(line) }
            self = .pinged(pings: Int(pings), pongs: Int(pongs), p50: p50, p99: p99)
        case ("closed", 1): self = .closed
        case ("failed", 2...): self = .failed(printable(line.dropFirst("failed ".count), Self.longestSentence))
        default: throw nonsense(line)
        }
    }

    var line: String {
        switch self {
        case .connected(let connections, let nanoseconds, let heap):
            "connected \(connections) \(nanoseconds) \(heap.map { String($0) } ?? "-")"
        case .pinged(let pings, let pongs, let p50, let p99):
            "pinged \(pings) \(pongs) \(p50.map { String($0) } ?? "-") \(p99.map { String($0) } ?? "-")"
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

private func nonsense(_ line: String) -> SystemFailure {
    SystemFailure("the other half of the crowd said '\(printable(line[...], 60))', which means nothing")
}

/// The beginning of a text, with spaces for ends of lines and control characters.
private func printable(_ text: Substring, _ limit: Int) -> String {
    let isControl = { (scalar: Unicode.Scalar) in scalar.value < 32 || 127...159 ~= scalar.value }
    return String(text.prefix(limit).map { $0.unicodeScalars.contains(where: isControl) ? " " : $0 })
}
