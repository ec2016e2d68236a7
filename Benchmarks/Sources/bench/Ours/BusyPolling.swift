import SocketIO

/// Another contender, while the loops of both sides poll before they sleep: the latency mode, whose price is a core's time.
final class BusyPolling: Contender {
    private static let time = Duration.microseconds(50)

    private let stage: Stage
    private let contender: any Contender

    init(_ stage: Stage, _ contender: any Contender) {
        (self.stage, self.contender) = (stage, contender)
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        let loops = [stage.clientLoop, stage.serverLoop]
        for loop in loops { loop.pollBusily(for: Self.time) }
        // Whoever comes next sleeps as ever.
        defer { for loop in loops { loop.pollBusily(for: .zero) } }
        return try contender.measure(for: nanoseconds)
    }

    func close() {
        contender.close()
    }
}

extension Recipe {
    static let tcpSupervisorPolling = Recipe(name: "supervisor, polling for 50 µs", workload: .tcpRoundTrip) {
        BusyPolling($0, try SupervisorRoundTrip($0, EchoServer($0, "tcp")))
    }
    static let udpSupervisorPolling = Recipe(name: "supervisor, polling for 50 µs", workload: .udpRoundTrip) {
        BusyPolling($0, try SupervisorRoundTrip($0, EchoServer($0, "udp")))
    }
    static let webSocketSupervisorPolling = Recipe(name: "supervisor, polling for 50 µs", workload: .webSocketRoundTrip)
    {
        BusyPolling($0, try SupervisorRoundTrip($0, EchoServer($0, "ws")))
    }
}
