import SocketIO

/// Another contender, while the loops of both sides sleep whenever they have nothing to do, as those of the others do, in place of
/// polling where it pays.
final class Sleeping: Contender {
    private let stage: Stage
    private let contender: any Contender

    init(_ stage: Stage, _ contender: any Contender) {
        (self.stage, self.contender) = (stage, contender)
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        let loops = [stage.clientLoop, stage.serverLoop]
        for loop in loops { loop.polling = .never }
        defer { for loop in loops { loop.polling = .adaptive } }
        return try contender.measure(for: nanoseconds)
    }

    func close() {
        contender.close()
    }
}

extension Recipe {
    static let tcpSupervisorSleeping = supervisor("tcp", .tcpRoundTrip)
    static let udpSupervisorSleeping = supervisor("udp", .udpRoundTrip)
    static let webSocketSupervisorSleeping = supervisor("ws", .webSocketRoundTrip)

    static let tcpSupervisorElsewhereSleeping = Recipe(
        name: "supervisor, never polling, caller on the global executor",
        workload: .tcpRoundTrip
    ) {
        Sleeping($0, try SupervisorRoundTrip($0, EchoServer($0, "tcp"), prefersLoop: false))
    }

    private static func supervisor(_ scheme: String, _ workload: Workload) -> Recipe {
        Recipe(name: "supervisor, never polling", workload: workload) {
            Sleeping($0, try SupervisorRoundTrip($0, EchoServer($0, scheme)))
        }
    }
}
