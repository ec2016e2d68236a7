import Protocols
import TransportAPI

/// The likely mistakes if a server ends the connection or stays silent before it has sent anything. Nothing was seen then, so
/// the URL has to be compared with the server, however the server ends the connection.
struct UnansweredHint: Sendable {
    private let expected: ForeignProtocol.Expected?
    private let isEncrypted: Bool

    /// Creates a hint.
    ///
    /// - Parameters:
    ///   - core: The core of this client.
    ///   - isEncrypted: Whether the client uses TLS.
    init(_ core: any PackageCore, isEncrypted: Bool) {
        expected = core.expected
        self.isEncrypted = isEncrypted
    }

    /// Returns the error with this hint if the error does not tell why the connection has ended, and otherwise as it is.
    func added(to error: TransportError) -> TransportError {
        guard error.isUnexplained else { return error }
        let alternative =
            switch error.phase {
            case _ where !isEncrypted: "TLS\(scheme { $0.encryptedScheme }) or "
            case .connect, .secure: "no TLS\(scheme { $0.scheme }) or "
            // The TLS handshake is complete.
            default: ""
            }
        var error = error
        error.reason +=
            ", before the server sent anything: it may expect \(alternative)another protocol at this port, so compare the "
            + "scheme and the port"
        return error
    }

    private func scheme(_ scheme: (ForeignProtocol.Expected) -> String) -> String {
        expected.map { " (\(scheme($0)))" } ?? ""
    }
}

extension TransportError {
    /// Whether the peer has ended the connection or was silent, so that the error does not tell why.
    fileprivate var isUnexplained: Bool {
        switch code {
        case .connectionReset, .connectionLost, .closedByPeer: tlsProblem.map { $0 == .truncated } ?? true
        case .timedOut: true
        default: false
        }
    }
}
