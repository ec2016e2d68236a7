import EmbeddedServers
import SocketIO
import TransportAPI

/// The server of one attack, and what its owner hears.
struct AttackedServer: Sendable {
    let server: EmbeddedServer
    private let heard: Locked<[String: Int]>

    init(_ plan: AttackPlan, on loop: EventLoop) async throws(TransportError) {
        let heard = Locked<[String: Int]>([:])
        server = try await EmbeddedServer.start(plan.url, on: loop) { note in
            heard.withLock {
                $0[note.reason.error?.code.rawValue ?? AttackPlan.Ending.closed, default: 0] += note.count
            }
        }
        self.heard = heard
    }

    /// How often something ended, by the error's code or as ``AttackPlan/Ending`` says.
    func endings(_ crowd: HostileCrowd) async -> [String: Int] {
        var endings = heard.withLock { $0 }
        let refusals = crowd.soFar.refusals
        if refusals > 0 { endings[AttackPlan.Ending.refused] = refusals }
        if let dropped = await server.brokerStatistics()?.dropped, dropped > 0 {
            endings[AttackPlan.Ending.dropped] = Int(clamping: dropped)
        }
        return endings
    }
}
