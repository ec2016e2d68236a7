import TransportAPI

/// What a client of a WebSocket without a subprotocol has seen of a server that expects STOMP.
///
/// Such a server ignores what comes before CONNECT or has no NUL at its end, or answers it with ERROR. To an app that
/// writes the frames of STOMP by hand, it just looks silent. So the reason for the end of the connection names the scheme
/// that does the rest.
enum STOMPSigns: Sendable, Hashable {
    /// There are none: the handshake has named a protocol, or the server's first message was another one.
    case none
    /// The server has sent no message, and nothing that looks like STOMP was sent yet. The number of the messages of this
    /// client counts up to ``mostWatched``.
    case undecided(sent: UInt8)
    /// A message of this client begins with the line of a command, and the server has sent no message.
    case unanswered
    /// The first message of the server was ERROR.
    case refused

    /// How many messages of a client are compared with frames, so that an app that sends many without an answer does not pay
    /// for each.
    private static let mostWatched: UInt8 = 16

    /// Whether the next message of the server can change the signs.
    var awaitsAnswer: Bool {
        switch self {
        case .undecided, .unanswered: true
        case .none, .refused: false
        }
    }

    /// Whether the next message of this client can change the signs.
    var watchesSending: Bool {
        guard case .undecided(let count) = self else { return false }
        return count < Self.mostWatched
    }

    /// Notes a message of this client, while it ``watchesSending``.
    mutating func sent(_ bytes: [UInt8]) {
        guard case .undecided(let count) = self else { return }
        self = Self.command(of: bytes) == nil ? .undecided(sent: count &+ 1) : .unanswered
    }

    /// Notes a message of the server, while the client ``awaitsAnswer``.
    mutating func received(_ bytes: [UInt8]) {
        self = Self.command(of: bytes) == .error ? .refused : .none
    }

    /// The command in the first line; `nil` if the line is none of a frame.
    private static func command(of bytes: [UInt8]) -> STOMPCommand? {
        let line = bytes.prefix(STOMPCommand.longestName + 2).prefix { $0 != UInt8(ascii: "\n") }
        guard line.count < bytes.count, bytes[line.count] == UInt8(ascii: "\n") else { return nil }
        let name = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
        return name.withUnsafeBytes { STOMPCommand(name: $0) }
    }

    /// The likely mistake in a sentence; `nil` if there is none.
    ///
    /// - Parameter isEncrypted: Whether the connection has TLS.
    func mistake(isEncrypted: Bool) -> String? {
        let scheme = ForeignProtocol.Expected.stompWebSocket.scheme(isEncrypted: isEncrypted)
        return switch self {
        case .none, .undecided: nil
        case .unanswered:
            "the server has not answered a message that begins like a frame of STOMP; if it speaks STOMP, use \(scheme), "
                + "which begins with CONNECT and ends each frame with a NUL"
        case .refused:
            "the server speaks STOMP, because its first message was ERROR; this client speaks plain WebSocket: use \(scheme)"
        }
    }
}
