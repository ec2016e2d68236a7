import Protocols
import TransportAPI
import Transports

/// What goes wrong in one row of `imbench outage`.
enum OutageFault: String, Sendable, Hashable, CaseIterable {
    /// The server's process dies: its connections are reset, nobody listens for a while, and then it is there again.
    case killed
    /// The connection is reset, by a middlebox for instance.
    case reset
    /// The connection ends without the protocol's goodbye.
    case finish
    /// Nothing gets through in either direction; nobody is told.
    case blackHole = "black-hole"
    case blackHoleToServer = "black-hole-to-server"
    case blackHoleToClient = "black-hole-to-client"
    /// The peer takes its messages slowly for a while. The connection is alive and must stay so.
    case slowReader = "slow-reader"
    /// The server says goodbye, stops, and starts again.
    case restart
    /// The client's address changes as the server sees it. Datagrams only: a TCP connection does not survive it.
    case rebind
    /// At the start nobody listens.
    case refused
    /// The first endpoint's name does not resolve; the second endpoint is good.
    case badName = "bad-name"
    /// The first credentials are refused; those asked for then are good.
    case badCredentials = "bad-credentials"

    var summary: String {
        switch self {
        case .killed: "server killed, back after the outage"
        case .reset: "connection reset"
        case .finish: "connection ended without goodbye"
        case .blackHole: "nothing gets through, both ways"
        case .blackHoleToServer: "nothing gets to the server"
        case .blackHoleToClient: "nothing gets to the client"
        case .slowReader: "the peer takes messages slowly"
        case .restart: "server says goodbye and restarts"
        case .rebind: "the client's address changes"
        case .refused: "nobody listens at first"
        case .badName: "the first name does not resolve"
        case .badCredentials: "the first credentials are refused"
        }
    }

    /// Whether it happens to a connection that is open, and not on the way to the first one.
    var isMidway: Bool {
        switch self {
        case .refused, .badName, .badCredentials: false
        default: true
        }
    }

    /// Whether the connection must survive it.
    var isBearable: Bool { self == .slowReader || self == .rebind }

    /// Whether silence alone tells of it, so that finding it takes as long as the keepalive allows.
    var isSilent: Bool {
        switch self {
        case .blackHole, .blackHoleToServer, .blackHoleToClient: true
        default: false
        }
    }

    /// Why there is no such row for a transport; `nil` if there is one.
    func isMeaningless(for transport: TransportDescriptor) -> String? {
        switch self {
        case .rebind where !transport.isDatagram: "a TCP connection does not outlive its address"
        case .reset where transport.isDatagram, .finish where transport.isDatagram:
            "there is no connection that could be cut"
        case .badCredentials where RefusingServer.answers[transport.name] == nil: "the protocol has no credentials"
        default: nil
        }
    }
}
