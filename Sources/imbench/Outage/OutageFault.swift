import Protocols
import TransportAPI
import Transports

/// The fault of one row of `imbench outage`.
enum OutageFault: String, Sendable, Hashable, CaseIterable {
    /// The server's process ends as its path shows it: its connections are reset, connects are refused for a while, and then it
    /// listens again. Its sessions survive, as in a server that stores them; with ``serverKilled`` they do not.
    case killed
    /// The connection is reset, by a middlebox for instance.
    case reset
    /// The connection ends without a close handshake.
    case finish
    /// All packets are dropped, without an error.
    case blackHole = "black-hole"
    case blackHoleToServer = "black-hole-to-server"
    case blackHoleToClient = "black-hole-to-client"
    /// The server reads slowly for a while. The connection is alive and must stay open.
    case slowReader = "slow-reader"
    /// The server closes its connections, stops, and starts again.
    case restart
    /// The server sees another address of the client. Only datagrams survive it, and a TCP connection does not.
    case rebind
    /// The first connects are refused.
    case refused
    /// The first endpoint's name does not resolve; the second endpoint is good.
    case badName = "bad-name"
    /// The first credentials are refused, and the renewed ones are accepted.
    case badCredentials = "bad-credentials"
    /// The client's process is killed with SIGKILL, and started again (``KillRun``).
    case clientKilled = "client-killed"
    /// The server's process is killed with SIGKILL, and started again (``KillRun``).
    case serverKilled = "server-killed"

    /// The faults that one process makes (``OutageRun``), which are the default.
    static let onPath = allCases.filter { !$0.isKill }

    /// Whether a process is killed.
    var isKill: Bool { self == .clientKilled || self == .serverKilled }

    /// Whether it affects an open connection, not the first attempt.
    var isMidway: Bool {
        switch self {
        case .refused, .badName, .badCredentials: false
        default: true
        }
    }

    /// Whether the connection must survive it.
    var isBearable: Bool { self == .slowReader || self == .rebind }

    /// Whether only the keepalive can detect it.
    var isSilent: Bool {
        switch self {
        case .blackHole, .blackHoleToServer, .blackHoleToClient: true
        default: false
        }
    }

    /// Why the fault does not apply to a transport; `nil` if it does.
    func isMeaningless(for transport: TransportDescriptor) -> String? {
        switch self {
        case .rebind where !transport.isDatagram: "a TCP connection does not outlive its address"
        case .rebind where transport.isEncrypted: "a connection over DTLS does not outlive its address"
        case .reset where transport.isDatagram, .finish where transport.isDatagram:
            "there is no connection that could end"
        case .badCredentials where transport.broker == nil && !transport.decidesHandshakes:
            "the protocol has no credentials"
        case .clientKilled where transport.isEncrypted, .serverKilled where transport.isEncrypted:
            "measured without TLS only, because each process has certificates of its own"
        default: nil
        }
    }
}
