import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// The server of one attack, and what its owner hears.
struct AttackedServer: Sendable {
    private enum Kind: Sendable {
        case plain(EmbeddedServer)
        case room(ChatServer)
    }

    let endpoint: Endpoint
    private let kind: Kind
    private let hasMembers: Bool
    private let heard: Locked<[String: Int]>

    init(_ plan: AttackPlan, on loop: EventLoop) async throws(TransportError) {
        let heard = Locked<[String: Int]>([:])
        hasMembers = plan.kind.isOfSessions || plan.kind == .poisonedIdentity
        let observer: ServerObserver = { note in
            heard.withLock {
                $0[note.reason.error?.code.rawValue ?? AttackPlan.Ending.closed, default: 0] += note.count
            }
        }
        if let sessions = plan.roomSessions {
            var limits = ChatRoom.Limits()
            limits.sessions = sessions
            let room = ChatRoom(limits, on: loop)
            let server = try await ChatServer.start(plan.url, room: room, observer: observer)
            kind = .room(server)
            endpoint = server.endpoint
        } else {
            let server = try await EmbeddedServer.start(plan.url, on: loop, observer: observer)
            kind = .plain(server)
            endpoint = server.endpoint
        }
        self.heard = heard
    }

    /// How often something ended, by the error's code or as ``AttackPlan/Ending`` says.
    func endings(_ crowd: HostileCrowd) async -> [String: Int] {
        var endings = heard.withLock { $0 }
        let told = crowd.soFar
        if told.refusals > 0 { endings[AttackPlan.Ending.refused] = told.refusals }
        if told.questions > 0 { endings[AttackPlan.Ending.questioned] = told.questions }
        if case .plain(let server) = kind, let dropped = await server.brokerStatistics()?.dropped, dropped > 0 {
            endings[AttackPlan.Ending.dropped] = Int(clamping: dropped)
        }
        return endings
    }

    func stop() async {
        switch kind {
        case .plain(let server): await server.stop()
        case .room(let server): await server.stop()
        }
    }

    /// Connects those that are measured.
    func honest(on loop: EventLoop) async throws(TransportError) -> any HonestParty {
        if hasMembers { return try await HonestMembers(to: endpoint, on: loop) }
        return try await HonestClients(to: endpoint, on: loop)
    }
}
