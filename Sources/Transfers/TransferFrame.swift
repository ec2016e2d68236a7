import TransportAPI

/// A message of a transfer, inside the payload of a message in any mode and over any transport.
/// Docs/reference/wire-formats.md defines each byte.
package enum TransferFrame: Sendable, Hashable {
    /// The sender has so many bytes, or does not know how many, and gives them a name.
    case offer(TransferID, size: UInt64?, name: String)
    /// The receiver's app is asked.
    case asked(TransferID)
    /// The receiver takes the bytes from this offset on. At most `window` bytes may be unacknowledged.
    case accept(TransferID, offset: UInt64, window: UInt32)
    /// Bytes at this offset.
    case chunk(TransferID, offset: UInt64, [UInt8])
    /// The receiver has processed all bytes before this offset.
    case received(TransferID, offset: UInt64)
    /// All bytes were sent, and have this SHA-256 digest.
    case end(TransferID, size: UInt64, digest: [UInt8])
    /// The receiver has all bytes, and they have the digest.
    case done(TransferID)
    /// One side has ended the transfer.
    case refused(TransferID, TransferRefusal)

    /// The first byte, with which no text begins and no message of protobuf.
    private static let mark = LayerFrame.transfer
    private static let headerLength = 18
    /// The number of bytes that a chunk adds to its content.
    package static let overhead = headerLength + 8
    /// The longest name in bytes of UTF-8.
    package static let maximumName = 1024
    /// The most bytes of a chunk.
    package static let maximumChunk = 64 << 10
    /// No offset is greater.
    package static let largestOffset: UInt64 = 1 << 62

    private enum Kind: UInt8 {
        case offer = 1
        case asked, accept, chunk, received, end, done, refused
    }

    /// Reads a frame. Returns `nil` for any other message.
    package init?(_ payload: Payload) {
        let bytes = payload.bytes
        guard payload.kind == .binary, bytes.count >= Self.headerLength, bytes[0] == Self.mark,
            let kind = Kind(rawValue: bytes[1])
        else { return nil }
        func word(_ offset: Int) -> UInt64 { bytes[offset..<offset + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        let id = TransferID(high: word(2), low: word(10))
        let rest = bytes.count - Self.headerLength
        // All frames with an offset have it at the same place.
        let offset = rest >= 8 ? word(Self.headerLength) : 0
        switch kind {
        case .offer:
            guard 8...8 + Self.maximumName ~= rest, offset == .max || offset <= Self.largestOffset,
                let name = String(validating: bytes[26...], as: UTF8.self)
            else { return nil }
            self = .offer(id, size: offset == .max ? nil : offset, name: name)
        case .asked:
            guard rest == 0 else { return nil }
            self = .asked(id)
        case .accept:
            guard rest == 12, offset <= Self.largestOffset else { return nil }
            self = .accept(id, offset: offset, window: bytes[26...].reduce(0) { $0 << 8 | UInt32($1) })
        case .chunk:
            guard 9...8 + Self.maximumChunk ~= rest, offset <= Self.largestOffset else { return nil }
            self = .chunk(id, offset: offset, Array(bytes[26...]))
        case .received:
            guard rest == 8, offset <= Self.largestOffset else { return nil }
            self = .received(id, offset: offset)
        case .end:
            guard rest == 40, offset <= Self.largestOffset else { return nil }
            self = .end(id, size: offset, digest: Array(bytes[26...]))
        case .done:
            guard rest == 0 else { return nil }
            self = .done(id)
        case .refused:
            guard 2...2 + TransferRefusal.maximumReason ~= rest else { return nil }
            let code = TransferRefusal.Code(rawValue: UInt16(bytes[18]) << 8 | UInt16(bytes[19]))
            self = .refused(id, TransferRefusal(code, String(decoding: bytes[20...], as: UTF8.self)))
        }
    }

    /// The payload of the frame.
    package var payload: Payload {
        var bytes: [UInt8] = []
        switch self {
        case .offer(let id, let size, let name):
            Self.begin(.offer, id, 8 + name.utf8.count, &bytes)
            Self.append(size ?? .max, &bytes)
            bytes += name.utf8
        case .asked(let id): Self.begin(.asked, id, 0, &bytes)
        case .accept(let id, let offset, let window):
            Self.begin(.accept, id, 12, &bytes)
            Self.append(offset, &bytes)
            Self.append(window, &bytes)
        case .chunk(let id, let offset, let content):
            Self.begin(.chunk, id, 8 + content.count, &bytes)
            Self.append(offset, &bytes)
            bytes += content
        case .received(let id, let offset):
            Self.begin(.received, id, 8, &bytes)
            Self.append(offset, &bytes)
        case .end(let id, let size, let digest):
            Self.begin(.end, id, 40, &bytes)
            Self.append(size, &bytes)
            bytes += digest
        case .done(let id): Self.begin(.done, id, 0, &bytes)
        case .refused(let id, let refusal):
            let reason = Array(refusal.reason.utf8)
            Self.begin(.refused, id, 2 + reason.count, &bytes)
            Self.append(refusal.code.rawValue, &bytes)
            bytes += reason
        }
        return Payload(bytes)
    }

    /// The transfer to which the frame belongs.
    package var id: TransferID {
        switch self {
        case .offer(let id, _, _), .asked(let id), .accept(let id, _, _), .chunk(let id, _, _), .received(let id, _),
            .end(let id, _, _), .done(let id), .refused(let id, _):
            id
        }
    }

    private static func begin(_ kind: Kind, _ id: TransferID, _ rest: Int, _ bytes: inout [UInt8]) {
        bytes.reserveCapacity(headerLength + rest)
        bytes += [mark, kind.rawValue]
        append(id.high, &bytes)
        append(id.low, &bytes)
    }

    private static func append(_ number: some FixedWidthInteger, _ bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
