/// A request or its answer inside the payload of a message, in any mode and over any transport.
/// Docs/reference/wire-formats.md defines each byte.
package enum RequestEnvelope: Sendable, Hashable {
    /// A request under a number that its sender has not used before.
    case request(UInt64, [UInt8])
    /// The answer to the request of this number.
    case reply(UInt64, [UInt8])
    /// The request of this number has failed at the peer.
    case failure(UInt64, RequestFailure)

    private enum Kind: UInt8 {
        case request = 0x13
        case reply = 0x14
        case failure = 0x1b
    }

    /// How many bytes come before the body of a request or a reply, and before the text of a failure.
    private static let (bodyOffset, textOffset) = (9, 11)

    /// Reads an envelope. Returns `nil` for any other message: one that was sent as text, that begins with another byte,
    /// or that is shorter than the fields of its envelope.
    package init?(_ payload: Payload) {
        let bytes = payload.bytes
        guard payload.kind == .binary, bytes.count >= Self.bodyOffset, let kind = Kind(rawValue: bytes[0]) else {
            return nil
        }
        let number = bytes[1..<Self.bodyOffset].reduce(0) { $0 << 8 | UInt64($1) }
        switch kind {
        case .request: self = .request(number, Array(bytes[Self.bodyOffset...]))
        case .reply: self = .reply(number, Array(bytes[Self.bodyOffset...]))
        case .failure:
            guard bytes.count >= Self.textOffset else { return nil }
            // A text that is too long, or is not UTF-8, is mended, because the caller waits for an answer.
            let text = bytes[Self.textOffset...].prefix(RequestFailure.maximumReason)
            let code = UInt16(bytes[Self.bodyOffset]) << 8 | UInt16(bytes[Self.bodyOffset + 1])
            self = .failure(number, RequestFailure(code: code, reason: String(decoding: text, as: UTF8.self)))
        }
    }

    /// The bytes of the envelope.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        switch self {
        case .request(let number, let body): Self.write(.request, number, body, to: &bytes)
        case .reply(let number, let body): Self.write(.reply, number, body, to: &bytes)
        case .failure(let number, let failure):
            let code = [UInt8(truncatingIfNeeded: failure.code >> 8), UInt8(truncatingIfNeeded: failure.code)]
            Self.write(.failure, number, code + failure.reason.utf8, to: &bytes)
        }
        return bytes
    }

    /// The payload with this envelope. It has the topic, QoS and retained flag of the payload that it carries.
    package func payload(carrying content: Payload? = nil) -> Payload {
        Payload(bytes, topic: content?.topic, qos: content?.qos, isRetained: content?.isRetained ?? false)
    }

    private static func write(_ kind: Kind, _ number: UInt64, _ body: [UInt8], to bytes: inout [UInt8]) {
        bytes.reserveCapacity(bodyOffset + body.count)
        bytes.append(kind.rawValue)
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
        bytes += body
    }
}
