import TransportAPI

/// A core of this package. Beyond ``ProtocolCore`` it has the abilities of few protocols, each with the default of a protocol
/// without it. So a driver calls them without asking which protocol it runs. Other packages write a ``ProtocolCore``, which
/// the driver runs inside an ``AdaptedCore``.
package protocol PackageCore: ProtocolCore {
    // MARK: Before the start

    /// The verified certificate of the client, for the app's decision about the handshake; `nil` without TLS or without a
    /// certificate. It is set before ``ProtocolCore/start(_:)``.
    var clientCertificate: TLSCertificate? { get set }
    /// The cookies that the handshake sends; `nil` for none. They are set before ``ProtocolCore/start(_:)``. A Cookie header
    /// of the app's own replaces them.
    var cookies: CookieHeader? { get set }

    // MARK: The handshake

    /// The protocol that this side speaks over a byte stream, for the error of a client whose server does not answer; `nil`
    /// if its name would not help.
    var expected: ForeignProtocol.Expected? { get }
    /// Why a handshake was not complete in time, in a sentence: what did not come, and what the reason can be.
    var lateHandshake: String { get }
    /// Whether the peer has accepted the connection. A core that opens its connection before (``CoreEvent/opened``) returns
    /// `false` until then. An error before that is one of the handshake.
    var isAccepted: Bool { get }
    /// The address to connect to instead, if the handshake has failed for that reason; `nil` otherwise.
    var redirection: Redirection? { get }
    /// The cookies that the server has set in its last answer, if that has opened the connection or redirects it.
    var receivedCookies: [SetCookie] { get }
    /// Whether the connection carries requests of sessions and no messages of its own. Its end is not that of a client.
    var isCarrier: Bool { get }

    // MARK: The end

    /// A sentence about a likely mistake of this side's configuration that the messages have shown, for the reason of the
    /// end; `nil` if there is none.
    func likelyMistake(isEncrypted: Bool) -> String?

    // MARK: Messages of earlier connections

    /// Returns the state of a message that an earlier core of the same transport sent under this id, and that was not
    /// acknowledged when its connection ended. Returns `nil` if the core does not know the message. If the peer has to get
    /// the message again, it is written now: the caller decides how many such messages are in flight.
    ///
    /// The driver calls it once for a message, if ``Capabilities/completesSends`` is `true`. Only ids with
    /// ``SendID/named`` are the same for all connections.
    mutating func completion(of id: UInt64, _ context: inout CoreContext) -> SendCompletion?
    /// Drops the message that an earlier core of the same transport sent under this id. No later core completes it.
    func forget(_ id: UInt64)

    // MARK: This side's address

    /// Notifies the peer that datagrams leave from another address from now on.
    mutating func moved(_ context: inout CoreContext)
}

extension PackageCore {
    /// By default, the handshake shows no certificate to the app.
    package var clientCertificate: TLSCertificate? {
        get { nil }
        set {}
    }
    /// By default, the handshake has no cookies.
    package var cookies: CookieHeader? {
        get { nil }
        set {}
    }

    /// By default, the protocol has no name.
    package var expected: ForeignProtocol.Expected? { nil }
    /// The default does not know why.
    package var lateHandshake: String { "the handshake was not complete in time" }
    /// The default is `true`, because most connections open when the peer accepts them.
    package var isAccepted: Bool { true }
    /// By default, the protocol has no redirects.
    package var redirection: Redirection? { nil }
    /// By default, the handshake has no cookies.
    package var receivedCookies: [SetCookie] { [] }
    /// By default, each connection is a client.
    package var isCarrier: Bool { false }

    /// By default, messages show no mistake.
    package func likelyMistake(isEncrypted _: Bool) -> String? { nil }

    /// By default, messages end with their connection.
    package mutating func completion(of _: UInt64, _: inout CoreContext) -> SendCompletion? { nil }
    /// By default, messages end with their connection.
    package func forget(_: UInt64) {}

    /// By default, the peer is not notified.
    package mutating func moved(_: inout CoreContext) {}
}

/// The state of a message that an earlier connection has sent.
package enum SendCompletion: Sendable, Hashable {
    /// ``CoreEvent/acknowledged(_:)`` will follow under the same id.
    case pending
    /// The peer has already acknowledged the message over this connection.
    case acknowledged
}
