import TransportAPI

/// The body of a close frame in this package's own formats (framed TCP, UDP): a 16-bit code in network byte order, then
/// a text in UTF-8.
///
/// The codes are those of WebSocket (RFC 6455, section 7.4, and the IANA registry of close codes), so that one table
/// serves all transports.
package enum ClosePayload {
    /// The longest text, in bytes of UTF-8.
    static let maximumTextSize = 120
    /// The size of the code in bytes.
    static let codeSize = 2

    static let normal: UInt16 = 1000
    static let goingAway: UInt16 = 1001
    static let protocolError: UInt16 = 1002
    /// The peer sends what this side does not accept, such as another protocol.
    package static let unacceptableData: UInt16 = 1003
    /// The peer violated a rule or a limit.
    package static let policyViolation: UInt16 = 1008
    static let invalidText: UInt16 = 1007
    static let messageTooLarge: UInt16 = 1009
    /// The server is overloaded, and the peer should try again later.
    package static let tryAgainLater: UInt16 = 1013
    static let timedOut: UInt16 = 3008

    /// Returns `text`, shortened to the longest text of a close frame without breaking a character.
    static func shortened(_ text: String) -> String {
        guard text.utf8.count > maximumTextSize else { return text }
        var short = ""
        var room = maximumTextSize
        for character in text {
            room -= character.utf8.count
            guard room >= 0 else { break }
            short.append(character)
        }
        return short
    }

    /// Reads the peer's reason from the body of its close frame. Returns `nil` if the body is malformed.
    static func reason(_ body: UnsafeRawBufferPointer) -> CloseReason? {
        guard body.count >= codeSize, body.count <= codeSize + maximumTextSize,
            let text = String(validating: body.dropFirst(codeSize), as: UTF8.self)
        else { return nil }
        let code = UInt16(bigEndian: body.loadUnaligned(as: UInt16.self))
        return CloseReason(peerClosed: code, text: text)
    }
}
