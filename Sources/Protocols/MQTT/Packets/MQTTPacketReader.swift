import Primitives
import TransportAPI

/// Reads packets from a byte stream. Input that the specification forbids is an error, and no length is used before it
/// was compared with its limit.
///
/// A packet is checked as early as possible: its type and flags with the first byte, its length with the fixed header,
/// and the rest when all of it has arrived. Nothing is consumed until then. A packet of many filters is read in pieces,
/// so that other connections can be served in between.
package struct MQTTPacketReader: Sendable {
    /// The most filters of one SUBSCRIBE or UNSUBSCRIBE. A filter has few bytes on the wire, but takes much more
    /// memory.
    static let maximumFilters = 4096
    /// The largest remaining length of CONNECT, in bytes: ten bytes, and five fields with a length of 16 bits. A peer
    /// that is not connected yet cannot make the reader buffer more.
    static let maximumConnectLength = 10 + 5 * 65_537

    /// The types that may arrive now. Another type is refused at its first byte.
    var accepted: MQTTPacketTypes
    /// The phase of the connection, for errors.
    var phase: TransportError.Phase = .handshake
    /// The topic of the last PUBLISH. If the next PUBLISH has the same topic, it is neither checked nor allocated
    /// again. Empty before the first.
    private(set) var lastTopic = ""
    /// The longest topic that is stored for the next PUBLISH, in bytes.
    private let longestKeptTopic: Int
    private let maximumMessageSize: Int
    private let maximumRemainingLength: Int
    /// A PUBLISH that was read up to its payload, which is larger than allowed. It is set only if ``passesOver`` is
    /// `true`. Nothing else is read until ``passOver(_:)`` has consumed the payload.
    var oversized: MQTTOversized?
    /// Whether a PUBLISH that is larger than allowed goes to ``oversized``. Otherwise it is an error.
    var passesOver = false
    /// The filters that were read of a SUBSCRIBE or UNSUBSCRIBE. The others are still in the input.
    var begun: BegunFilters?

    /// Creates a reader of packets whose payload has at most `maximumMessageSize` bytes.
    init(
        maximumMessageSize: Int,
        accepted: MQTTPacketTypes = .all,
        longestKeptTopic: Int = MQTTTopic.maximumLength
    ) {
        self.accepted = accepted
        self.longestKeptTopic = longestKeptTopic
        self.maximumMessageSize = maximumMessageSize
        maximumRemainingLength = maximumMessageSize.addingSaturated(2 + MQTTTopic.maximumLength + 2)
    }

    /// The memory in use between two packets, in bytes.
    var bufferedBytes: Int { lastTopic.utf8.count + (begun?.bufferedBytes ?? 0) }

    /// Takes the next packet from `input`. Returns `nil` if it has not arrived whole or is ``oversized``. Also returns
    /// `nil` if the packet is ``begun``; the caller then calls again.
    @inline(__always)
    mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> MQTTPacket? {
        guard oversized == nil else { return nil }
        var taken = 0
        let packet = try input.withUnsafeReadableBytes { (bytes) throws(TransportError) -> MQTTPacket? in
            guard let header = try header(bytes) else { return nil }
            let total = header.size + header.remaining
            // The topic has a length field of two bytes, so a packet of fewer bytes has no payload that is too large.
            if header.type == .publish, header.remaining - 2 > maximumMessageSize {
                guard try !isOversized(header, bytes, &taken) else { return nil }
            }
            guard bytes.count >= total else { return nil }
            taken = total
            let body = UnsafeRawBufferPointer(rebasing: bytes[header.size..<total])
            if header.type == .publish { return .publish(try publish(header.flags, body)) }
            let packet = try control(header, body)
            if packet == nil { taken = 0 }
            return packet
        }
        input.consume(taken)
        return packet
    }

    // MARK: Fixed header (section 2.2)

    struct FixedHeader {
        var type: MQTTPacketType
        var flags: UInt8
        var size: Int
        var remaining: Int
    }

    @inline(__always)
    private func header(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> FixedHeader? {
        guard let first = bytes.first else { return nil }
        guard let type = MQTTPacketType(rawValue: first >> 4) else {
            throw violation("packet type \(first >> 4) is reserved (section 2.2.1)")
        }
        let flags = first & 15
        try check(type, flags: flags)
        guard accepted.contains(type) else {
            throw violation("\(type.name) is out of place here (sections 3.1 and 4.8)")
        }
        var remaining = 0
        for position in 1...4 {
            guard position < bytes.count else { return nil }
            let byte = bytes[position]
            remaining |= Int(byte & 127) << (7 * (position - 1))
            guard byte & 128 == 0 else { continue }
            try check(type, remaining: remaining)
            return FixedHeader(type: type, flags: flags, size: position + 1, remaining: remaining)
        }
        throw violation("the remaining length has more than four bytes (section 2.2.3)")
    }

    @inline(__always)
    private func check(_ type: MQTTPacketType, flags: UInt8) throws(TransportError) {
        switch type {
        case .publish:
            guard flags & 6 != 6 else { throw violation("PUBLISH has QoS 3 (MQTT-3.3.1-4)") }
            guard flags & 8 == 0 || flags & 6 != 0 else { throw violation("PUBLISH has DUP at QoS 0 (MQTT-3.3.1-2)") }
        case .pubrel, .subscribe, .unsubscribe:
            guard flags == 2 else { throw violation("\(type.name) has flags \(flags) instead of 2 (MQTT-2.2.2-2)") }
        default:
            guard flags == 0 else { throw violation("\(type.name) has flags \(flags) instead of 0 (MQTT-2.2.2-2)") }
        }
    }

    @inline(__always)
    private func check(_ type: MQTTPacketType, remaining: Int) throws(TransportError) {
        let limit: Int
        switch type {
        case .publish where passesOver: return
        case .publish, .subscribe, .suback, .unsubscribe:
            limit = maximumRemainingLength
        case .connect:
            limit = Self.maximumConnectLength
        case .connack, .puback, .pubrec, .pubrel, .pubcomp, .unsuback:
            guard remaining == 2 else {
                throw violation("\(type.name) has \(remaining) bytes instead of 2 (section 3)")
            }
            return
        case .pingreq, .pingresp, .disconnect:
            guard remaining == 0 else {
                throw violation("\(type.name) has \(remaining) bytes instead of 0 (section 3)")
            }
            return
        }
        guard remaining <= limit else {
            throw TransportError(
                .messageTooLarge,
                phase,
                "the peer announces a \(type.name) of \(remaining) bytes, \(limit) are allowed"
            )
        }
    }

    // MARK: PUBLISH (section 3.3)

    /// Whether the payload of a PUBLISH is larger than allowed, or the fields before it have not arrived. When all
    /// fields before an oversized payload have arrived, they are taken.
    @inline(never)
    private mutating func isOversized(
        _ header: FixedHeader,
        _ bytes: UnsafeRawBufferPointer,
        _ taken: inout Int
    ) throws(TransportError) -> Bool {
        let body = UnsafeRawBufferPointer(rebasing: bytes[header.size...])
        guard body.count >= 2 else { return true }
        let qos = MQTTQoS(rawValue: header.flags >> 1 & 3) ?? .atMostOnce
        let topicEnd = 2 + (Int(body[0]) << 8 | Int(body[1]))
        let payload = topicEnd + (qos == .atMostOnce ? 0 : 2)
        guard header.remaining - payload > maximumMessageSize else { return false }
        guard body.count >= payload else { return true }
        var fields = MQTTFields(.publish, UnsafeRawBufferPointer(rebasing: body[..<payload]), phase)
        let topic = try fields.topicName(try fields.data())
        var message = MQTTOversized(
            topic: topic,
            size: header.remaining - payload,
            qos: qos,
            packetID: qos == .atMostOnce ? 0 : try fields.packetID(),
            isDuplicate: header.flags & 8 != 0
        )
        guard passesOver else { throw tooLarge(message) }
        message.left = message.size
        oversized = message
        taken = header.size + payload
        return true
    }

    func tooLarge(_ message: MQTTOversized) -> TransportError {
        // A topic can have 65,535 bytes.
        let topic = String(decoding: message.topic.utf8.prefix(200), as: UTF8.self)
        let sentence = "the message on '\(topic)' has \(message.size) bytes, \(maximumMessageSize) are allowed"
        return TransportError(.messageTooLarge, phase, sentence)
    }

    /// Consumes the bytes of the oversized payload that have arrived. Returns the message once all of them have
    /// arrived.
    mutating func passOver(_ input: inout ByteBuffer) -> MQTTOversized? {
        guard let message = oversized else { return nil }
        let count = min(message.left, input.count)
        input.consume(count)
        oversized?.left -= count
        guard count == message.left else { return nil }
        oversized = nil
        return message
    }

    @inline(__always)
    private mutating func publish(_ flags: UInt8, _ body: UnsafeRawBufferPointer) throws(TransportError) -> MQTTPublish
    {
        var fields = MQTTFields(.publish, body, phase)
        let name = try fields.data()
        var topic = lastTopic
        if !topic.withContiguousUTF8({ $0.hasSameBytes(as: name) }) || name.isEmpty {
            topic = try fields.topicName(name)
            if name.count <= longestKeptTopic { lastTopic = topic }
        }
        let qos = MQTTQoS(rawValue: flags >> 1 & 3) ?? .atMostOnce
        let packetID = qos == .atMostOnce ? 0 : try fields.packetID()
        var publish = MQTTPublish(topic: topic, payload: [UInt8](fields.rest()))
        publish.qos = qos
        publish.retain = flags & 1 != 0
        publish.isDuplicate = flags & 8 != 0
        publish.packetID = packetID
        return publish
    }

    @inline(never)
    private func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, phase, sentence)
    }
}

// The bodies of all packets except PUBLISH.
extension MQTTPacketReader {
    /// Reads one packet. Returns `nil` if it has more filters than are read in one call.
    @inline(never)
    mutating func control(_ header: FixedHeader, _ body: UnsafeRawBufferPointer) throws(TransportError) -> MQTTPacket? {
        var fields = MQTTFields(header.type, body, phase)
        guard let packet = try control(header.type, &fields) else { return nil }
        if case .connectOtherLevel = packet { return packet }
        guard fields.count == 0 else {
            throw fields.violation("has \(fields.count) bytes after its last field (section 3)")
        }
        return packet
    }

    private mutating func control(
        _ type: MQTTPacketType,
        _ fields: inout MQTTFields
    ) throws(TransportError) -> MQTTPacket? {
        switch type {
        case .connect: return try connect(&fields)
        case .connack: return try connack(&fields)
        case .puback: return .puback(try fields.packetID())
        case .pubrec: return .pubrec(try fields.packetID())
        case .pubrel: return .pubrel(try fields.packetID())
        case .pubcomp: return .pubcomp(try fields.packetID())
        case .subscribe: return try subscribe(&fields)
        case .suback: return try suback(&fields)
        case .unsubscribe: return try unsubscribe(&fields)
        case .unsuback: return .unsuback(try fields.packetID())
        case .pingreq: return .pingreq
        case .pingresp: return .pingresp
        case .disconnect: return .disconnect
        case .publish: throw fields.violation("is not a control packet")
        }
    }

    private func connect(_ fields: inout MQTTFields) throws(TransportError) -> MQTTPacket {
        guard try fields.text("protocol name") == "MQTT" else {
            throw fields.violation("has a protocol name other than MQTT (MQTT-3.1.2-1)")
        }
        let level = try fields.byte()
        guard level == 4 else { return .connectOtherLevel(level) }
        let flags = try fields.byte()
        guard flags & 0x01 == 0 else { throw fields.violation("has its reserved flag set (MQTT-3.1.2-3)") }
        guard let willQoS = MQTTQoS(rawValue: flags >> 3 & 3) else {
            throw fields.violation("has a will of QoS 3 (MQTT-3.1.2-14)")
        }
        let hasWill = flags & 0x04 != 0
        guard hasWill || flags & 0x38 == 0 else {
            throw fields.violation("has flags of a will but no will (MQTT-3.1.2-13, MQTT-3.1.2-15)")
        }
        let (hasUser, hasPassword) = (flags & 0x80 != 0, flags & 0x40 != 0)
        guard hasUser || !hasPassword else {
            throw fields.violation("has a password but no user name (MQTT-3.1.2-22)")
        }
        let keepAlive = try fields.integer()
        var connect = MQTTConnect(clientID: try fields.text("client identifier"))
        connect.keepAlive = keepAlive
        connect.cleanSession = flags & 0x02 != 0
        if hasWill {
            let topic = try fields.topicName(try fields.data())
            let payload = [UInt8](try fields.data())
            connect.will = MQTTWill(topic: topic, payload: payload, qos: willQoS, retain: flags & 0x20 != 0)
        }
        if hasUser { connect.user = try fields.text("user name") }
        if hasPassword { connect.password = [UInt8](try fields.data()) }
        return .connect(connect)
    }

    private func connack(_ fields: inout MQTTFields) throws(TransportError) -> MQTTPacket {
        let flags = try fields.byte()
        let code = try fields.byte()
        guard flags & 0xfe == 0 else { throw fields.violation("has reserved flags set (section 3.2.2.1)") }
        guard flags == 0 || code == 0 else {
            throw fields.violation("refuses the client, but says that a session is present (MQTT-3.2.2-4)")
        }
        return .connack(sessionPresent: flags == 1, code: code)
    }

    private mutating func subscribe(_ fields: inout MQTTFields) throws(TransportError) -> MQTTPacket? {
        let packetID = try fields.packetID()
        let subscriptions = try filters(&fields) { (fields, filter) throws(TransportError) in
            let requested = try fields.byte()
            guard let qos = MQTTQoS(rawValue: requested) else {
                throw fields.violation("asks for QoS \(requested) (MQTT-3.8.3-4)")
            }
            return MQTTSubscription(filter, qos: qos)
        }
        guard let subscriptions else { return nil }
        guard !subscriptions.isEmpty else { throw fields.violation("has no topic filter (MQTT-3.8.3-3)") }
        return .subscribe(packetID, subscriptions)
    }

    /// Reads filters from the place where the last call has stopped. Returns all of them once there are no more.
    private mutating func filters(
        _ fields: inout MQTTFields,
        _ read: (inout MQTTFields, String) throws(TransportError) -> MQTTSubscription
    ) throws(TransportError) -> [MQTTSubscription]? {
        var begun = begun.take() ?? BegunFilters(filters: [], position: fields.position)
        fields.skip(to: begun.position)
        let before = begun.filters.count
        while fields.count > 0 {
            let bytes = fields.position - begun.position
            guard begun.filters.count - before < BegunFilters.atOnce, bytes < BegunFilters.bytesAtOnce else {
                begun.position = fields.position
                self.begun = begun
                return nil
            }
            try fields.checkFilters(begun.filters.count)
            begun.filters.append(try read(&fields, try fields.topicFilter()))
        }
        return begun.filters
    }

    private func suback(_ fields: inout MQTTFields) throws(TransportError) -> MQTTPacket {
        let packetID = try fields.packetID()
        var granted: [MQTTQoS?] = []
        while fields.count > 0 {
            try fields.checkFilters(granted.count)
            let code = try fields.byte()
            let qos = MQTTQoS(rawValue: code)
            guard qos != nil || code == 0x80 else { throw fields.violation("has return code \(code) (MQTT-3.9.3-2)") }
            granted.append(qos)
        }
        guard !granted.isEmpty else { throw fields.violation("has no return code (section 3.9.3)") }
        return .suback(packetID, granted)
    }

    private mutating func unsubscribe(_ fields: inout MQTTFields) throws(TransportError) -> MQTTPacket? {
        let packetID = try fields.packetID()
        guard let filters = try filters(&fields, { MQTTSubscription($1) }) else { return nil }
        guard !filters.isEmpty else { throw fields.violation("has no topic filter (MQTT-3.10.3-2)") }
        return .unsubscribe(packetID, filters.map(\.filter))
    }
}

/// The filters of one packet that were read so far.
struct BegunFilters: Sendable {
    /// How many filters, and how many bytes of them, are read in one call.
    static let atOnce = 64
    static let bytesAtOnce = 16 << 10

    var filters: [MQTTSubscription]
    /// The offset of the next filter in the packet's body.
    var position: Int

    /// The memory of the filters, in bytes. A string of more than 15 bytes has its own allocation.
    var bufferedBytes: Int { position + filters.capacity * (MemoryLayout<MQTTSubscription>.stride + 32) }
}

/// Reads the fields of one packet's body from front to back, and never beyond its end.
struct MQTTFields {
    private let type: MQTTPacketType
    private let phase: TransportError.Phase
    private let bytes: UnsafeRawBufferPointer
    /// How many bytes were read.
    private(set) var position = 0

    init(_ type: MQTTPacketType, _ bytes: UnsafeRawBufferPointer, _ phase: TransportError.Phase) {
        self.type = type
        self.bytes = bytes
        self.phase = phase
    }

    /// How many bytes are left.
    var count: Int { bytes.count - position }

    mutating func skip(to position: Int) {
        self.position = min(position, bytes.count)
    }

    mutating func byte() throws(TransportError) -> UInt8 {
        guard count >= 1 else { throw short() }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func integer() throws(TransportError) -> UInt16 {
        guard count >= 2 else { throw short() }
        defer { position += 2 }
        return UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt16.self))
    }

    mutating func packetID() throws(TransportError) -> UInt16 {
        let packetID = try integer()
        guard packetID != 0 else { throw violation("has packet identifier 0 (MQTT-2.3.1-1)") }
        return packetID
    }

    /// Reads bytes that follow their 16-bit length.
    mutating func data() throws(TransportError) -> UnsafeRawBufferPointer {
        let length = Int(try integer())
        guard count >= length else { throw short() }
        defer { position += length }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<position + length])
    }

    /// Takes all bytes that are left.
    mutating func rest() -> UnsafeRawBufferPointer {
        defer { position = bytes.count }
        return UnsafeRawBufferPointer(rebasing: bytes[position...])
    }

    mutating func text(_ field: String) throws(TransportError) -> String {
        try text(field, data())
    }

    mutating func topicFilter() throws(TransportError) -> String {
        let filter = try data()
        guard MQTTTopic.isFilter(filter) else {
            throw violation("has an empty or malformed topic filter (MQTT-4.7.1, MQTT-4.7.3)")
        }
        return try wellFormed("topic filter", filter)
    }

    func topicName(_ name: UnsafeRawBufferPointer) throws(TransportError) -> String {
        guard MQTTTopic.isName(name) else {
            throw violation("has an empty topic, or one with wildcards or U+0000 (MQTT-3.3.2-2, MQTT-4.7.3)")
        }
        return try wellFormed("topic", name)
    }

    func checkFilters(_ count: Int) throws(TransportError) {
        guard count < MQTTPacketReader.maximumFilters else {
            let limit = MQTTPacketReader.maximumFilters
            throw TransportError(.messageTooLarge, phase, "\(type.name) has more than \(limit) topic filters")
        }
    }

    private func text(_ field: String, _ bytes: UnsafeRawBufferPointer) throws(TransportError) -> String {
        guard !bytes.contains(0) else { throw violation("has U+0000 in its \(field) (MQTT-1.5.3-2)") }
        return try wellFormed(field, bytes)
    }

    private func wellFormed(_ field: String, _ bytes: UnsafeRawBufferPointer) throws(TransportError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw violation("has ill-formed UTF-8 in its \(field) (MQTT-1.5.3-1)")
        }
        return text
    }

    @inline(never)
    private func short() -> TransportError {
        violation("ends in the middle of a field (section 2.2.3)")
    }

    @inline(never)
    func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, phase, "\(type.name) \(sentence)")
    }
}
