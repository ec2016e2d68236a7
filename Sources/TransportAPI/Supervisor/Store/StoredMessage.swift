/// A message of an outbox as a record of its store. Docs/reference/outbox-store.md defines each byte.
struct StoredMessage {
    let id: MessageID
    let payload: Payload

    /// The kind of these records. Others are left for later versions.
    static let kind: UInt8 = 1
    private static let version: UInt8 = 1
    /// The version, the attributes and the length of the topic.
    private static let headerLength = 6

    private static let hasTopic: UInt8 = 1 << 0
    private static let isText: UInt8 = 1 << 1
    private static let isRetained: UInt8 = 1 << 2
    /// The QoS plus 1; 0 for none.
    private static let qosShift: UInt8 = 3

    init(_ id: MessageID, _ payload: Payload) {
        (self.id, self.payload) = (id, payload)
    }

    /// The key of the record of a message.
    static func key(_ id: MessageID) -> StoredRecord.Key { StoredRecord.Key(kind: kind, number: id.number) }

    /// The record of this message.
    var record: StoredRecord {
        let topic = payload.topic.map { Array($0.utf8) }
        var attributes = payload.qos.map { ($0.rawValue + 1) << Self.qosShift } ?? 0
        if topic != nil { attributes |= Self.hasTopic }
        if payload.kind == .text { attributes |= Self.isText }
        if payload.isRetained { attributes |= Self.isRetained }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.headerLength + (topic?.count ?? 0) + payload.bytes.count)
        bytes += [Self.version, attributes]
        withUnsafeBytes(of: UInt32(clamping: topic?.count ?? 0).bigEndian) { bytes.append(contentsOf: $0) }
        if let topic { bytes += topic }
        bytes += payload.bytes
        return StoredRecord(Self.key(id), bytes)
    }

    /// Reads a record.
    ///
    /// - Throws: `.storageFailed` if it is no message, or was written by another version.
    init(_ record: StoredRecord) throws(TransportError) {
        func failure(_ what: String) -> TransportError { .storedByAnotherVersion(record, what) }
        let bytes = record.value
        guard record.key.kind == Self.kind, let version = bytes.first, version == Self.version else {
            throw failure("was written by another version")
        }
        // The next messages get greater numbers.
        guard (1...SessionNumbering.largest).contains(record.key.number) else {
            throw failure("has a number that no message has")
        }
        guard bytes.count >= Self.headerLength else {
            throw failure("has \(bytes.count) bytes and needs \(Self.headerLength)")
        }
        let (attributes, length) = (bytes[1], bytes[2..<6].reduce(0) { $0 << 8 | Int($1) })
        guard length <= bytes.count - Self.headerLength, length == 0 || attributes & Self.hasTopic != 0 else {
            throw failure("has a topic of \(length) bytes that does not fit")
        }
        let content = Self.headerLength + length
        guard let topic = String(validating: bytes[Self.headerLength..<content], as: UTF8.self) else {
            throw failure("has a topic that is not UTF-8")
        }
        let qos = attributes >> Self.qosShift
        guard qos <= 3 else { throw failure("has the QoS \(qos - 1)") }
        id = MessageID(record.key.number)
        payload = Payload(
            Array(bytes[content...]),
            kind: attributes & Self.isText != 0 ? .text : .binary,
            topic: attributes & Self.hasTopic != 0 ? topic : nil,
            qos: qos == 0 ? nil : Payload.QoS(rawValue: qos - 1),
            isRetained: attributes & Self.isRetained != 0
        )
    }
}
