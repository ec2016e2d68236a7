import SocketIO

/// Runs another contender while the loops of both sides poll before they sleep (`EventLoop.polling`, adaptive). In all
/// other rows they sleep at once, which is the default and the behaviour of other libraries.
final class PollingContender: Contender {
    private let stage: Stage
    private let contender: any Contender

    init(_ stage: Stage, _ contender: any Contender) {
        (self.stage, self.contender) = (stage, contender)
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        let loops = [stage.clientLoop, stage.serverLoop]
        for loop in loops { loop.polling = .adaptive }
        defer { for loop in loops { loop.polling = .never } }
        return try contender.measure(for: nanoseconds)
    }

    func close() {
        contender.close()
    }
}

extension Recipe {
    static let tcpSupervisorPolling = supervisor("tcp", .tcpRoundTrip)
    static let tlsSupervisorPolling = supervisor("tls", .tlsRoundTrip)
    static let udpSupervisorPolling = supervisor("udp", .udpRoundTrip)
    static let webSocketSupervisorPolling = supervisor("ws", .webSocketRoundTrip)
    static let connectionAtMostOncePolling = mosquitto(qos: 0, .mqttAtMostOnce)
    static let connectionAtLeastOncePolling = mosquitto(qos: 1, .mqttAtLeastOnce)

    private static func supervisor(_ scheme: String, _ workload: Workload) -> Recipe {
        Recipe(name: "supervisor, polling", workload: workload) {
            PollingContender($0, try SupervisorRoundTrip($0, EchoServer($0, scheme)))
        }
    }

    private static func mosquitto(qos: Int, _ workload: Workload) -> Recipe {
        Recipe(name: "connection, polling, through mosquitto", workload: workload) {
            PollingContender($0, try MQTTPassage.connection($0, qos: qos, name: "polling"))
        }
    }
}
