import Primitives
import TransportAPI

/// A payload as a stanza (RFC 6121, section 5): a text is the body of a message. Other bytes, and texts that XML cannot
/// carry unchanged, are base64 in an element of this package (Docs/reference/xmpp.md).
enum XMPPMessage {
    /// The bytes of a stanza beside twice its payload: addresses, and elements of servers.
    private static let room = 64 << 10

    /// The largest stanza whose message may have so many bytes.
    static func stanzaLimit(_ messageSize: Int) -> Int {
        messageSize.multipliedSaturated(2).addingSaturated(room)
    }

    /// Appends a message.
    ///
    /// - Parameters:
    ///   - isBody: whether it is a text that XML carries unchanged.
    ///   - head: the start tag without its id and its end, such as `<message type='chat' to='…'`.
    static func write(
        _ payload: Payload,
        asBody isBody: Bool,
        number: UInt64,
        head: [UInt8],
        to output: inout ByteBuffer
    ) {
        output.reserve(payload.bytes.count.addingSaturated(payload.bytes.count / 2).addingSaturated(head.count + 160))
        output.append(contentsOf: head)
        output.append(utf8: " id='\(String(number, radix: 36))'>")
        if isBody {
            output.append(utf8: "<body>")
            XMPPWriter.append(body: payload.bytes, to: &output)
            output.append(utf8: "</body>")
        } else {
            output.append(utf8: "<data xmlns='\(XMPPNamespace.payload)'")
            output.append(utf8: payload.kind == .text ? " kind='text'>" : ">")
            output.append(contentsOf: Base64.encode(payload.bytes))
            output.append(utf8: "</data>")
        }
        output.append(utf8: "</message>")
    }

    /// The number that a message of this side has in its id; `nil` for an id of another kind.
    static func number(_ id: String) -> UInt64? {
        guard let number = UInt64(id, radix: 36), String(number, radix: 36).hasSameBytes(as: id) else { return nil }
        return number
    }

    /// Reads the payload of a message. Returns `nil` for a message without one, such as that somebody is typing.
    static func payload(of message: consuming XMPPElement) throws(XMPPFault) -> Payload? {
        let isData: (XMPPElement) -> Bool = { $0.isNamed("data", XMPPNamespace.payload) }
        if let data = message.children.first(where: isData) {
            guard let bytes = data.text.withUnsafeBufferPointer({ Base64.decode($0) }) else {
                throw XMPPFault("bad-format", "the peer sent a payload that is not base64")
            }
            let isText = data["kind"]?.hasSameBytes(as: "text") == true
            guard !isText || bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
                throw XMPPFault("bad-format", "the peer sent a text that is not UTF-8", code: .invalidText)
            }
            return Payload(bytes, kind: isText ? .text : .binary)
        }
        guard let body = message.children.first(where: { $0.isNamed("body", XMPPNamespace.client) }) else { return nil }
        return Payload(body.text, kind: .text)
    }

    /// The bare address of an address, in which upper and lower case of ASCII are the same.
    static func bare(_ address: String) -> [UInt8] {
        address.utf8.prefix { $0 != UInt8(ascii: "/") }.map { byte in
            byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte + 0x20 : byte
        }
    }
}
