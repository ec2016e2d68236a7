import TransportAPI

/// The header of the first record in a datagram of DTLS 1.2 (RFC 6347, section 4.1).
package struct DTLSRecord: Sendable {
    /// The size of the header, in bytes.
    static let headerSize = 13
    private static let handshakeType: UInt8 = 22
    private static let alertType: UInt8 = 21

    /// The size of an alert that is not encrypted, in bytes.
    package static let alertSize = headerSize + 2

    private let type: UInt8
    private let epoch: UInt16
    /// The size of the record with its header, in bytes.
    private let size: Int

    /// Reads the header; `nil` if the datagram does not begin with a complete record.
    package init?(_ datagram: UnsafeRawBufferPointer) {
        guard datagram.count >= Self.headerSize,
            Self.begins(UInt32(bigEndian: datagram.loadUnaligned(as: UInt32.self)))
        else { return nil }
        size = Self.headerSize + (Int(datagram[11]) << 8 | Int(datagram[12]))
        guard datagram.count >= size else { return nil }
        type = datagram[0]
        epoch = UInt16(datagram[3]) << 8 | UInt16(datagram[4])
    }

    /// Reads the header; `nil` if the datagram does not begin with a complete record.
    package init?(_ datagram: borrowing ByteBuffer) {
        guard let record = datagram.withUnsafeReadableBytes({ Self($0) }) else { return nil }
        self = record
    }

    /// Whether the record belongs to a handshake, or to a change of keys.
    package var isHandshake: Bool { type == Self.handshakeType || type == 20 }
    /// Whether the record is a message of the application.
    package var isMessage: Bool { type == 23 }
    /// Whether the record is an alert.
    package var isAlert: Bool { type == Self.alertType }
    /// Whether the record is an unencrypted alert, which anyone can have sent.
    package var isPlainAlert: Bool { isAlert && epoch == 0 }
    /// Whether `datagram`, which begins with this record, is the alert of ``appendAlert(to:)``.
    package func isUnexpectedMessage(_ datagram: UnsafeRawBufferPointer) -> Bool {
        isPlainAlert && datagram.count == Self.alertSize && datagram[Self.headerSize + 1] == 10
    }
    /// Whether the record is not encrypted.
    package var isPlain: Bool { epoch == 0 }

    /// A datagram of a handshake, divided at its first alert that is not encrypted. Any host can send such an alert.
    package struct HandshakeParts {
        /// The records before the alert.
        package var beginning: UnsafeRawBufferPointer
        /// Whether a part of a handshake, which is not encrypted, is among them.
        package var continuesHandshake = false
        /// The alert, or nothing.
        package var alert: UnsafeRawBufferPointer

        /// Divides a datagram.
        package init(_ datagram: UnsafeRawBufferPointer) {
            var end = 0
            while let record = DTLSRecord(UnsafeRawBufferPointer(rebasing: datagram[end...])) {
                if record.isPlainAlert {
                    beginning = UnsafeRawBufferPointer(rebasing: datagram[..<end])
                    alert = UnsafeRawBufferPointer(rebasing: datagram[end..<end + record.size])
                    return
                }
                if record.isHandshake, record.isPlain, record.size > headerSize { continuesHandshake = true }
                end += record.size
            }
            beginning = datagram
            alert = UnsafeRawBufferPointer(start: nil, count: 0)
        }
    }

    /// Whether an alert, which is not encrypted, is fatal.
    package static func isFatal(_ alert: UnsafeRawBufferPointer) -> Bool {
        alert.count > headerSize && alert[headerSize] == 2
    }

    /// How many encrypted records may still come during a handshake, for which OpenSSL would need memory.
    package struct EarlyQuota: Sendable, Equatable {
        /// How many messages of the application.
        package var messages: Int
        /// How many others: a repeated end of the handshake is encrypted too.
        package var others: Int

        /// Creates a quota.
        package init(messages: Int, others: Int) {
            (self.messages, self.others) = (messages, others)
        }

        mutating func take(_ record: DTLSRecord) -> Bool {
            let left = record.isMessage ? messages : others
            guard left > 0 else { return false }
            if record.isMessage { messages -= 1 } else { others -= 1 }
            return true
        }
    }

    /// Returns the records of a datagram up to the first encrypted one beyond a quota, and takes the encrypted ones from the
    /// quota. Bytes that are no complete record end the datagram too.
    package static func beginning(
        of datagram: UnsafeRawBufferPointer,
        encrypted quota: inout EarlyQuota
    ) -> UnsafeRawBufferPointer {
        var end = 0
        while let record = DTLSRecord(UnsafeRawBufferPointer(rebasing: datagram[end...])) {
            guard record.isPlain || quota.take(record) else { break }
            end += record.size
        }
        return UnsafeRawBufferPointer(rebasing: datagram[..<end])
    }

    /// Whether a datagram with these first four bytes can be one of DTLS: the type of a record, and version 1.0 or 1.2.
    static func begins(_ start: UInt32) -> Bool {
        let version = start >> 8 & 0xffff
        return (20...23).contains(start >> 24) && (version == 0xfefd || version == 0xfeff)
    }

    /// Appends the alert unexpected_message without encryption. It tells a peer that this side has no state for its
    /// datagram. A peer must not trust it, because any host can send it.
    package static func appendAlert(to reply: inout ByteBuffer) {
        for byte: UInt8 in [alertType, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 10] { reply.append(byte) }
    }
}
