import TransportAPI

/// Reads packets from a byte stream, strictly: what the specification forbids is an error, and no length is trusted
/// before it was compared with its limit.
///
/// A packet is judged as early as it can be: its type and flags when the first byte is there, its length when the fixed
/// header is, the rest when all of it is. Nothing is consumed until then. A packet of many filters is read in pieces, so that
/// others can be seen to in between.
package struct MQTTPacketReader: Sendable {
    /// The most filters that one SUBSCRIBE or UNSUBSCRIBE may carry; a few bytes each on the wire, many in memory.
    static let maximumFilters = 4096
    /// The largest CONNECT: ten bytes and five fields of 16-bit length. All that a stranger can make us keep.
    static let maximumConnectLength = 10 + 5 * 65_537

    /// The types that may arrive now; others are refused at their first byte.
    var accepted: MQTTPacketTypes
    /// How far the link has come, for errors.
    var phase: TransportError.Phase = .handshake
    /// The topic of the last PUBLISH, kept so that the same one in sequence is neither checked nor allocated again; empty
    /// before the first.
    private(set) var lastTopic = ""
    /// The longest topic that is kept, in bytes.
    private let longestKeptTopic: Int
    private let maximumMessageSize: Int
    private let maximumRemainingLength: Int
    /// The PUBLISH that was read up to its payload, which is larger than allowed, where ``passesOver`` lets it be. Nothing else is read
    /// until the payload has been taken by ``passOver(_:)``.
    var oversized: MQTTOversized?
    /// Whether a PUBLISH that is larger than allowed is left to the owner, and not refused.
    var passesOver = false
    /// What was read of a SUBSCRIBE or UNSUBSCRIBE of which more is in the input.
    var begun: BegunFilters?

    /// A reader of packets whose payload has at most `maximumMessageSize` bytes.
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

    /// How much memory is kept for the next packet.
    var heldBytes: Int { lastTopic.utf8.count + (begun?.heldBytes ?? 0) }

    /// Takes the next packet from `input`; `nil` if not all of it is there, if it is ``oversized``, or if it is ``begun`` and this is to
    /// be called again.
    @inline(__always)
    mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> MQTTPacket? {
        guard oversized == nil else { return nil }
        var taken = 0
        let packet = try input.withUnsafeReadableBytes { (bytes) throws(TransportError) -> MQTTPacket? in
            guard let header = try header(bytes) else { return nil }
            let total = header.size + header.remaining
            // A topic has a length of two bytes, so that a shorter packet can't have too large a payload.
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
                "the far side announces a \(type.name) of \(remaining) bytes, \(limit) are allowed"
            )
        }
    }

    // MARK: PUBLISH (section 3.3)

    /// Whether the payload of a PUBLISH is larger than allowed, or that can't be told yet. Once all before an oversized payload is there,
    /// it is taken.
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
        // A topic may be long.
        let topic = String(decoding: message.topic.utf8.prefix(200), as: UTF8.self)
        let sentence = "the message on '\(topic)' has \(message.size) bytes, \(maximumMessageSize) are allowed"
        return TransportError(.messageTooLarge, phase, sentence)
    }

    /// Takes what has come of the oversized payload; the message once all of it has.
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
