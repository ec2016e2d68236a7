import TransportAPI

// The packets that are no PUBLISH, from their bodies.
extension MQTTPacketReader {
    /// The packet; `nil` if it has more filters than are read at a time.
    @inline(never)
    mutating func control(_ header: FixedHeader, _ body: UnsafeRawBufferPointer) throws(TransportError) -> MQTTPacket? {
        var fields = MQTTFields(header.type, body, phase)
        guard let packet = try control(header.type, &fields) else { return nil }
        if case .connectOtherLevel = packet { return packet }
        guard fields.count == 0 else {
            throw fields.violation("has \(fields.count) bytes behind its last field (section 3)")
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
            throw fields.violation("refuses and yet has a session present (MQTT-3.2.2-4)")
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

    /// Reads filters, from where the last call has stopped; all of them once there are no more.
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

/// The filters of one packet, so far as they are read.
struct BegunFilters: Sendable {
    /// How many are read at a time, and of how many bytes.
    static let atOnce = 64
    static let bytesAtOnce = 16 << 10

    var filters: [MQTTSubscription]
    /// Where in the packet's body the next one begins.
    var position: Int

    /// A string of more than 15 bytes lies in memory of its own.
    var heldBytes: Int { position + filters.capacity * (MemoryLayout<MQTTSubscription>.stride + 32) }
}

/// The fields of one packet's body, read from front to back and never beyond its end.
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

    /// Bytes behind their 16-bit length.
    mutating func data() throws(TransportError) -> UnsafeRawBufferPointer {
        let length = Int(try integer())
        guard count >= length else { throw short() }
        defer { position += length }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<position + length])
    }

    /// All that is left.
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
