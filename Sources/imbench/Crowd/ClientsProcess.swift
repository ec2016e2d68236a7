import TransportAPI

/// The process of a crowd's clients, as the process of its server sees it. Whatever it does wrong is a failure: that it ends,
/// says something else than what was asked for, or nothing in time.
struct ClientsProcess {
    /// The word that makes this program be the clients. No help speaks of it, since nobody starts them by hand.
    static let word = "crowd-clients"

    private let child: ChildProcess
    private let patience: Int64

    /// Starts a program, this one if none is given, that may take `patience` for each answer beyond what the work itself takes.
    init(_ program: [String]?, patience: Duration) throws(SystemFailure) {
        guard let words = program ?? ThisProgram.path.map({ [$0, Self.word] }) else {
            throw SystemFailure("the system does not tell where this program is, to start its clients")
        }
        child = try ChildProcess(words)
        self.patience = patience.wholeNanoseconds
    }

    typealias Connected = (connections: Int, nanoseconds: Int64, heap: Int?)

    /// Connects the clients; fewer than asked for only if the user wants no more.
    func connect(_ transport: String, _ connections: Int, _ ports: [UInt16]) throws(SystemFailure) -> Connected {
        // However slow the machine is, it does a hundred handshakes in a second.
        let answer = try ask(
            .connect(transport: transport, connections: connections, ports: ports),
            Int64(connections) * 10_000_000
        )
        guard case .connected(let count, let nanoseconds, let heap) = answer,
            count == connections || count < connections && Interruption.isRequested
        else { throw Self.stray(answer) }
        return (count, nanoseconds, heap)
    }

    typealias Pinged = (pings: Int, pongs: Int, p50: Int64?, p99: Int64?)

    /// Pings each of `connections` connections once.
    func ping(_ connections: Int, over hold: Duration) throws(SystemFailure) -> Pinged {
        let answer = try ask(.ping(nanoseconds: hold.wholeNanoseconds), hold.wholeNanoseconds)
        guard case .pinged(let pings, let pongs, let p50, let p99) = answer,
            pings == connections || pings < connections && Interruption.isRequested
        else { throw Self.stray(answer) }
        return (pings, pongs, p50, p99)
    }

    /// Closes the connections and ends the process.
    func end() throws(SystemFailure) {
        let answer = try ask(.close, 0)
        guard answer == .closed else { throw Self.stray(answer) }
        let ending = child.end()
        guard ending == .status(ExitStatus.good) else { throw Self.early(ending) }
    }

    /// The answer to a request that takes `work` nanoseconds.
    private func ask(_ request: CrowdRequest, _ work: Int64) throws(SystemFailure) -> CrowdAnswer {
        let end = Clocks.monotonic() + work + patience
        guard child.write(request.line) else { throw Self.early(child.end()) }
        var isStopped = false
        while true {
            // Ctrl-C may reach any thread, and does not reach that process.
            if Interruption.isRequested, !isStopped { isStopped = child.write(CrowdRequest.stop) }
            switch child.next(timeout: 100) {
            case .line(let line):
                let answer = try CrowdAnswer(line)
                if case .failed(let sentence) = answer { throw SystemFailure("the clients failed: \(sentence)") }
                return answer
            case .tooLong: throw SystemFailure("the clients' process said more than a line may hold")
            case .end: throw Self.early(child.end())
            case .nothing:
                guard Clocks.monotonic() < end else {
                    throw SystemFailure(
                        "the clients' process did not answer '\(request.line.prefix { $0 != " " })' in time"
                    )
                }
            }
        }
    }

    private static func stray(_ answer: CrowdAnswer) -> SystemFailure {
        SystemFailure("the clients' process said '\(answer.line)', which is no answer to what was asked")
    }

    private static func early(_ ending: ChildProcess.Ending) -> SystemFailure {
        switch ending {
        case .status(let status): SystemFailure("the clients' process ended with status \(status)")
        case .signal(let number): SystemFailure("the clients' process was ended by signal \(number)")
        }
    }
}
