import Primitives
import TransportAPI

/// Why one side ended a transfer, as it tells the other side.
public struct TransferRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    /// The longest reason in bytes of UTF-8. A longer one is cut.
    public static let maximumReason = 1024

    /// What kind of reason it is.
    public struct Code: RawRepresentable, Sendable, Hashable {
        /// The number on the wire.
        public var rawValue: UInt16

        /// Makes a code.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// The receiving app does not want it (``TransferOffer/refuse(_:)``).
        public static let refused = Code(rawValue: 1)
        /// It is larger than ``TransferConfiguration/maximumSize``.
        public static let tooLarge = Code(rawValue: 2)
        /// The receiver has ``TransferConfiguration/maximumIncoming`` transfers already.
        public static let tooMany = Code(rawValue: 3)
        /// The receiver has no handler for offers (``Transfers/onOffer(_:)``).
        public static let noHandler = Code(rawValue: 4)
        /// The receiver could not take the bytes, for instance because its disk is full.
        public static let failed = Code(rawValue: 5)
        /// The bytes that arrived do not have the digest of those that were sent.
        public static let corrupted = Code(rawValue: 6)
        /// The receiver does not know the transfer, because its process was restarted. The sender offers it again.
        static let unknown = Code(rawValue: 7)
        /// The app at the other side has cancelled it.
        public static let cancelled = Code(rawValue: 8)
        /// Nothing arrived for ``TransferConfiguration/stallTimeout``.
        public static let stalled = Code(rawValue: 9)
        /// The other side has broken the rules of a transfer.
        public static let broken = Code(rawValue: 10)
    }

    /// What kind of reason it is.
    public let code: Code
    /// The reason, for people.
    public let reason: String

    /// Makes a refusal.
    public init(_ code: Code, _ reason: String) {
        (self.code, self.reason) = (code, reason.cut(toUTF8: Self.maximumReason))
    }

    /// The reason and the number of its code.
    public var description: String { "\(reason) (code \(code.rawValue))" }
}

/// Why a transfer has ended without success.
public enum TransferError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The other side has ended it.
    case refused(TransferRefusal)
    /// The peer has got the offer and has not answered it. It may have no ``Transfers``.
    case noAnswer
    /// The app has cancelled it.
    case cancelled
    /// The supervisor or the session has ended. The transfer can be begun again under its identifier.
    case ended(TransportError)
    /// The offer was not sent, because the outbox has no room for it or its store fails.
    case notSent(TransportError)
    /// A file could not be opened, read or written.
    case file(TransportError)
    /// The sequence of the bytes has thrown an error, with this text.
    case source(String)
    /// The receiver has lost bytes that the sequence does not have any more. A file would be read again.
    case sourceNotRepeatable
    /// ``TransferConfiguration/maximumOutgoing`` transfers wait already.
    case tooMany
    /// A transfer with this identifier is in progress.
    case inProgress

    /// The sentence for people.
    public var description: String {
        switch self {
        case .refused(let refusal): "the peer has ended the transfer: \(refusal)"
        case .noAnswer: "the peer answered no offer; it may not receive transfers"
        case .cancelled: "the transfer was cancelled"
        case .ended(let error): "the conversation has ended: \(error)"
        case .notSent(let error): "nothing was sent: \(error)"
        case .file(let error): "\(error)"
        case .source(let text): "the bytes could not be read: \(text)"
        case .sourceNotRepeatable: "the peer has lost bytes that the sequence has no more; send a file instead"
        case .tooMany: "too many transfers wait; try again when one has ended"
        case .inProgress: "a transfer with this identifier is in progress"
        }
    }
}
