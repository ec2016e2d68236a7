import Protocols
import TransportAPI
import Transports

/// The credentials of a broker's client, as in its CONNECT (MQTT 3.1.1, section 3.1.3; STOMP 1.2).
public struct BrokerCredentials: Sendable, Hashable {
    /// The client identifier. It is empty if the broker should assign one, and over STOMP, which has none.
    public var clientID: String
    /// The user name, or `nil` if there is none.
    public var user: String?
    /// The password, which may be any bytes, or `nil` if there is none.
    @Secret public var password: [UInt8]?
    /// The client's address and port, or `nil` if they are not known.
    public var peer: String?
    /// The client's verified certificate, or `nil` if it has sent none. The broker knows clients by their identifier alone.
    /// To bind identifiers to certificates, refuse an identifier that does not belong to the certificate.
    public var certificate: TLSCertificate?

    /// Creates credentials.
    ///
    /// - Parameters:
    ///   - clientID: the client identifier.
    ///   - user: the user name; none by default.
    ///   - password: the password; none by default.
    ///   - peer: the client's address and port; unknown by default.
    ///   - certificate: the client's verified certificate; none by default.
    public init(
        clientID: String,
        user: String? = nil,
        password: [UInt8]? = nil,
        peer: String? = nil,
        certificate: TLSCertificate? = nil
    ) {
        self.clientID = clientID
        self.user = user
        self.password = password
        self.peer = peer
        self.certificate = certificate
    }

    init(_ connect: STOMPFrame, peer: String?, certificate: TLSCertificate?) {
        self.init(
            clientID: "",
            user: connect["login"],
            password: connect["passcode"].map { Array($0.utf8) },
            peer: peer,
            certificate: certificate
        )
    }

    init(_ connect: MQTTConnect, peer: String?, certificate: TLSCertificate?) {
        self.init(
            clientID: connect.clientID,
            user: connect.user,
            password: connect.password,
            peer: peer,
            certificate: certificate
        )
    }

    /// Returns whether the credentials have this user name and this password. The comparison takes the same time for
    /// all wrong passwords of the right length.
    ///
    /// - Parameters:
    ///   - user: the expected user name.
    ///   - password: the expected password, which is compared as UTF-8.
    public func match(user: String, password: String) -> Bool {
        let expected = Array(password.utf8)
        guard let own = self.user, own.utf8.elementsEqual(user.utf8), let given = self.password,
            given.count == expected.count
        else { return false }
        return zip(given, expected).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

extension BrokerCredentials: CustomStringConvertible {
    /// The client identifier, the user and the address.
    public var description: String {
        "client '\(clientID)'\(user.map { ", user '\($0)'" } ?? "")\(peer.map { " at \($0)" } ?? "")"
    }
}

/// A broker's decision about ``BrokerCredentials``. CONNACK carries it to the client (MQTT 3.1.1, section 3.2.2.3).
public enum BrokerAnswer: UInt8, Sendable, Hashable, CaseIterable {
    /// The client is accepted.
    case accept = 0
    /// The client identifier is refused.
    case refuseIdentifier = 2
    /// The broker accepts no client at the moment.
    case unavailable = 3
    /// The user name or password is wrong.
    case wrongCredentials = 4
    /// The client is not authorized.
    case forbid = 5

    /// The error and the text with which a broker of STOMP rejects the client; `nil` if it accepts it.
    var rejection: STOMPRejection? {
        switch self {
        case .accept: nil
        case .refuseIdentifier, .wrongCredentials: STOMPRejection(.authenticationFailed, "Bad login or passcode")
        case .unavailable: STOMPRejection(.serverUnavailable, "The broker accepts no client at the moment")
        case .forbid: STOMPRejection(.forbidden, "Access denied")
        }
    }

    var code: MQTTConnackCode { MQTTConnackCode(rawValue: rawValue) ?? .notAuthorized }
}

/// Decides whether to accept a client. The broker calls it on its loop for each CONNECT, so it must neither block nor
/// wait.
public typealias BrokerAuthentication = @Sendable (BrokerCredentials) -> BrokerAnswer
