import Primitives
import SocketIO

/// The alerts of ``ToyTLS`` (RFC 8446, section 6).
enum ToyAlert: UInt8 {
    case closeNotify = 0
    case unexpectedMessage = 10
    case badRecord = 20
    case unknownAuthority = 48
    case noProtocol = 120

    /// The failure for an alert of the peer.
    ///
    /// - Parameter body: the number of the alert.
    static func failure(_ body: [UInt8], from peer: String) -> TLSFailure {
        switch body.first.flatMap({ ToyAlert(rawValue: $0) }) {
        case .unknownAuthority:
            TLSFailure(.certificateRefused, "the \(peer) does not accept the certificate of this side")
        case .noProtocol: TLSFailure(.noCommonProtocol, "the \(peer) speaks none of the offered protocols")
        case .badRecord, .unexpectedMessage: TLSFailure(.brokenRecord, "the \(peer) reports a broken record")
        case .closeNotify, nil: TLSFailure(.other, "the \(peer) has sent an unknown alert")
        }
    }
}
