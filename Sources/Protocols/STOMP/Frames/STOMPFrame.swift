import Primitives

/// A command of STOMP 1.2 (sections "Client Frames" and "Server Frames").
package enum STOMPCommand: UInt8, Sendable, Hashable, CaseIterable {
    // The commands of a server.
    case message, receipt, error, connected
    // The commands of a client.
    case send, subscribe, unsubscribe, ack, nack, begin, commit, abort, disconnect, connect, stomp

    /// The longest name, in bytes.
    static let longestName = 11

    /// The name on the wire. Case matters.
    package var name: String {
        switch self {
        case .message: "MESSAGE"
        case .receipt: "RECEIPT"
        case .error: "ERROR"
        case .connected: "CONNECTED"
        case .send: "SEND"
        case .subscribe: "SUBSCRIBE"
        case .unsubscribe: "UNSUBSCRIBE"
        case .ack: "ACK"
        case .nack: "NACK"
        case .begin: "BEGIN"
        case .commit: "COMMIT"
        case .abort: "ABORT"
        case .disconnect: "DISCONNECT"
        case .connect: "CONNECT"
        case .stomp: "STOMP"
        }
    }

    /// Finds the command by its name. Returns `nil` if there is none.
    init?(name: UnsafeRawBufferPointer) {
        let found = Self.allCases.first { $0.name.utf8.elementsEqual(name) }
        guard let found else { return nil }
        self = found
    }

    /// Whether a frame of this command may have a body (section "Body").
    var mayHaveBody: Bool { self == .message || self == .error || self == .send }

    /// Whether names and values of headers are escaped. They are not in CONNECT and CONNECTED, for the sake of STOMP
    /// 1.0 (section "Value Encoding").
    var isEscaped: Bool { self != .connect && self != .connected }
}

/// A set of commands.
package struct STOMPCommands: Sendable, Hashable {
    private let bits: UInt16

    /// Creates the set of these commands.
    init(_ commands: STOMPCommand...) {
        self.init(commands)
    }

    /// All commands of both sides.
    static let all = STOMPCommands(STOMPCommand.allCases)

    private init(_ commands: [STOMPCommand]) {
        bits = commands.reduce(0) { $0 | 1 << $1.rawValue }
    }

    /// Whether the set has this command.
    func contains(_ command: STOMPCommand) -> Bool { bits & 1 << command.rawValue != 0 }
}

/// A header of a frame.
package struct STOMPHeader: Sendable, Hashable {
    /// The name. Case matters.
    package let name: String
    /// The value, exactly as it was sent: spaces belong to it. It is never printed, because CONNECT may carry a
    /// password or a token.
    @Secret package private(set) var value: String

    /// Creates a header from its name and value, neither of them escaped.
    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A frame of STOMP 1.2: a command, headers and a body.
package struct STOMPFrame: Sendable, Hashable {
    /// The command.
    package var command: STOMPCommand
    /// The headers in their order, repeated ones included. They are not escaped.
    package var headers: [STOMPHeader]
    /// The body, or the beginning of one that a reader has not kept.
    package var body: [UInt8]
    /// The bytes that the body has on the wire. They are more than those of ``body`` if a reader has not kept it.
    package var bodySize: Int

    /// Creates a frame. Without headers and body by default.
    package init(_ command: STOMPCommand, _ headers: [STOMPHeader] = [], body: [UInt8] = []) {
        self.command = command
        self.headers = headers
        self.body = body
        bodySize = body.count
    }

    /// The value of the first header of this name, because later ones only show its history (section "Repeated Header
    /// Entries"). Names are compared byte by byte.
    package subscript(name: String) -> String? {
        headers.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }

    /// Whether the whole body was kept.
    var isWhole: Bool { bodySize == body.count }

    /// Whether the content-type is that of a text in UTF-8, and the body is one (section "Header content-type").
    var isText: Bool {
        guard let type = self["content-type"]?.lowercased(), type.hasPrefix("text/") else { return false }
        let charset = type.split(separator: ";").dropFirst()
            .first { $0.drop { $0 == " " }.hasPrefix("charset=") }?
            .drop { $0 != "=" }.dropFirst()
            .filter { $0 != "\"" && $0 != " " }
        guard charset == nil || charset == "utf-8" || charset == "us-ascii" else { return false }
        return body.withUnsafeBufferPointer { firstInvalidUTF8($0) == nil }
    }
}
