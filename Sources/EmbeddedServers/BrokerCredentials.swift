import Protocols
import Transports

/// What a client of a broker says of itself in CONNECT (MQTT 3.1.1, section 3.1.3).
public struct BrokerCredentials: Sendable, Hashable {
    /// Who it says it is; empty if it leaves that to the broker.
    public var clientID: String
    /// The user name; `nil` if it gives none.
    public var user: String?
    /// The password, which may be any bytes; `nil` if it gives none.
    public var password: [UInt8]?
    /// The client's address and port, where they are known.
    public var peer: String?

    /// Credentials spelled out.
    public init(clientID: String, user: String? = nil, password: [UInt8]? = nil, peer: String? = nil) {
        self.clientID = clientID
        self.user = user
        self.password = password
        self.peer = peer
    }

    init(_ connect: MQTTConnect, peer: String?) {
        self.init(clientID: connect.clientID, user: connect.user, password: connect.password, peer: peer)
    }

    /// Whether they name this user and this password. Takes as long for a password that begins right as for one that does not.
    public func match(user: String, password: String) -> Bool {
        let expected = Array(password.utf8)
        guard let own = self.user, own.utf8.elementsEqual(user.utf8), let given = self.password,
            given.count == expected.count
        else { return false }
        return zip(given, expected).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

// What is printed of credentials holds no password.
extension BrokerCredentials: CustomStringConvertible, CustomDebugStringConvertible {
    /// The client identifier, the user and the address.
    public var description: String {
        "client '\(clientID)'\(user.map { ", user '\($0)'" } ?? "")\(peer.map { " at \($0)" } ?? "")"
    }
    /// The same.
    public var debugDescription: String { description }
}

/// A broker's answer to ``BrokerCredentials``, as CONNACK brings it to the client (MQTT 3.1.1, section 3.2.2.3).
public enum BrokerAnswer: UInt8, Sendable, Hashable, CaseIterable {
    /// The client is let in.
    case accept = 0
    /// Not under this client identifier.
    case refuseIdentifier = 2
    /// Not now.
    case unavailable = 3
    /// The user name or password is wrong.
    case wrongCredentials = 4
    /// The client may not come in.
    case forbid = 5

    var code: MQTTConnackCode { MQTTConnackCode(rawValue: rawValue) ?? .notAuthorized }
}

/// Judges who may come in. Called on the broker's loop for each CONNECT; must neither block nor wait.
public typealias BrokerAuthentication = @Sendable (BrokerCredentials) -> BrokerAnswer
