/// The framing of records (RFC 8446, section 5.1).
enum TLSRecord {
    /// The content of the front of a byte stream.
    enum Front: Equatable {
        /// The beginning of a record, or nothing.
        case incomplete
        /// A whole record of this many bytes, with its header.
        case whole(Int)
        /// Bytes that are not TLS.
        case foreign
        /// A record whose content has this many bytes, which is more than allowed.
        case tooLong(Int)
    }

    /// The length of the header, in bytes.
    static let header = 5
    /// The longest record, in bytes: TLS 1.2 allows 2048 bytes more than the data (RFC 5246, section 6.2.3).
    static let longest = header + 16384 + 2048
    /// The fatal alert unexpected_message, without its header of a record (RFC 8446, section 6.2).
    static let unexpectedMessage: [UInt8] = [2, 10]

    /// Reads the header at the front of `bytes`.
    static func front(of bytes: UnsafeRawBufferPointer) -> Front {
        guard bytes.count > 0 else { return .incomplete }
        guard (20...24).contains(bytes[0]), bytes.count < 2 || bytes[1] == 3 else { return .foreign }
        guard bytes.count >= header else { return .incomplete }
        let content = Int(bytes[3]) << 8 | Int(bytes[4])
        guard header + content <= longest else { return .tooLong(content) }
        return bytes.count >= header + content ? .whole(header + content) : .incomplete
    }

    /// Whether a record is the alert unexpected_message. The plain servers of this package answer a ClientHello with it. A
    /// TLS server has no reason to do so.
    static func isUnexpectedMessage(_ record: UnsafeRawBufferPointer) -> Bool {
        record.first == 21 && record.dropFirst(header).elementsEqual(unexpectedMessage)
    }

    /// A record with the alert unexpected_message, for a peer that speaks no TLS.
    static let refusal: [UInt8] = [21, 3, 1, 0, UInt8(truncatingIfNeeded: unexpectedMessage.count)] + unexpectedMessage
}
