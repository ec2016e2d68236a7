import TransportAPI

/// Writes packets. The size is computed first, so that every packet is written once and in place.
///
/// The arguments must be valid: topics and filters are checked, and texts fit their 16-bit lengths.
/// ``MQTTConfiguration`` and the cores ensure it.
package enum MQTTPacketWriter {
    /// The largest remaining length that fits into four bytes (MQTT 3.1.1, section 2.2.3).
    static let maximumRemainingLength = 268_435_455

    /// Writes a PUBLISH. It is the only packet whose cost matters.
    @inline(__always)
    static func publish(
        topic: UnsafeRawBufferPointer,
        payload: [UInt8],
        qos: MQTTQoS,
        retain: Bool = false,
        isDuplicate: Bool = false,
        packetID: UInt16 = 0,
        into output: inout ByteBuffer
    ) {
        let remaining = 2 + topic.count + (qos == .atMostOnce ? 0 : 2) + payload.count
        let flags = (isDuplicate ? 8 : 0) | qos.rawValue << 1 | (retain ? 1 : 0)
        _ = output.write(minimum: 5 + remaining) { target in
            var position = header(MQTTPacketType.publish.rawValue << 4 | flags, remaining, target)
            target.storeBytes(of: UInt16(topic.count).bigEndian, toByteOffset: position, as: UInt16.self)
            position += 2
            UnsafeMutableRawBufferPointer(rebasing: target[position...]).copyMemory(from: topic)
            position += topic.count
            if qos != .atMostOnce {
                target.storeBytes(of: packetID.bigEndian, toByteOffset: position, as: UInt16.self)
                position += 2
            }
            payload.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: target[position...]).copyMemory(from: $0)
            }
            return position + payload.count
        }
    }

    /// Writes a packet that consists of a type and a packet identifier.
    static func identified(_ type: MQTTPacketType, _ packetID: UInt16, into output: inout ByteBuffer) {
        _ = output.write(minimum: 4) { target in
            // Of these packets, only PUBREL has the flags 0010 (MQTT-3.6.1-1).
            target[0] = type.rawValue << 4 | (type == .pubrel ? 2 : 0)
            target[1] = 2
            target.storeBytes(of: packetID.bigEndian, toByteOffset: 2, as: UInt16.self)
            return 4
        }
    }

    /// Writes a packet that consists of its type.
    static func bare(_ type: MQTTPacketType, into output: inout ByteBuffer) {
        _ = output.write(minimum: 2) { target in
            target[0] = type.rawValue << 4
            target[1] = 0
            return 2
        }
    }

    static func connack(sessionPresent: Bool = false, code: UInt8, into output: inout ByteBuffer) {
        _ = output.write(minimum: 4) { target in
            target[0] = MQTTPacketType.connack.rawValue << 4
            target[1] = 2
            target[2] = sessionPresent ? 1 : 0
            target[3] = code
            return 4
        }
    }

    static func connect(_ connect: MQTTConnect, into output: inout ByteBuffer) {
        // Name and level, flags, keep alive, client identifier (section 3.1.2).
        var remaining = 6 + 1 + 1 + 2 + size(connect.clientID)
        var flags: UInt8 = connect.cleanSession ? 0x02 : 0
        if let will = connect.will {
            remaining += size(will.topic) + 2 + will.payload.count
            flags |= 0x04 | will.qos.rawValue << 3 | (will.retain ? 0x20 : 0)
        }
        if let user = connect.user {
            remaining += size(user)
            flags |= 0x80
        }
        if let password = connect.password {
            remaining += 2 + password.count
            flags |= 0x40
        }
        header(.connect, 0, remaining, into: &output)
        text("MQTT", into: &output)
        output.append(4)
        output.append(flags)
        output.append(integer: connect.keepAlive)
        text(connect.clientID, into: &output)
        if let will = connect.will {
            text(will.topic, into: &output)
            data(will.payload, into: &output)
        }
        if let user = connect.user { text(user, into: &output) }
        if let password = connect.password { data(password, into: &output) }
    }

    static func subscribe(_ packetID: UInt16, _ subscriptions: [MQTTSubscription], into output: inout ByteBuffer) {
        header(.subscribe, 2, subscribeSize(subscriptions), into: &output)
        output.append(integer: packetID)
        for subscription in subscriptions {
            text(subscription.filter, into: &output)
            output.append(subscription.qos.rawValue)
        }
    }

    /// The remaining length of a SUBSCRIBE.
    static func subscribeSize(_ subscriptions: [MQTTSubscription]) -> Int {
        subscriptions.reduce(2) { $0 + size($1.filter) + 1 }
    }

    static func suback(_ packetID: UInt16, _ granted: [MQTTQoS?], into output: inout ByteBuffer) {
        header(.suback, 0, 2 + granted.count, into: &output)
        output.append(integer: packetID)
        for qos in granted { output.append(qos?.rawValue ?? 0x80) }
    }

    static func unsubscribe(_ packetID: UInt16, _ filters: [String], into output: inout ByteBuffer) {
        header(.unsubscribe, 2, filters.reduce(2) { $0 + size($1) }, into: &output)
        output.append(integer: packetID)
        for filter in filters { text(filter, into: &output) }
    }

    /// Writes any packet.
    package static func write(_ packet: MQTTPacket, into output: inout ByteBuffer) {
        switch packet {
        case .connect(let packet): connect(packet, into: &output)
        case .connectOtherLevel(let level):
            output.append(contentsOf: [0x10, 10, 0, 4, 0x4d, 0x51, 0x54, 0x54, level, 2, 0, 0])
        case .connack(let sessionPresent, let code): connack(sessionPresent: sessionPresent, code: code, into: &output)
        case .publish(let packet):
            packet.topic.withContiguousUTF8 { topic in
                publish(
                    topic: topic,
                    payload: packet.payload,
                    qos: packet.qos,
                    retain: packet.retain,
                    isDuplicate: packet.isDuplicate,
                    packetID: packet.packetID,
                    into: &output
                )
            }
        case .puback(let id): identified(.puback, id, into: &output)
        case .pubrec(let id): identified(.pubrec, id, into: &output)
        case .pubrel(let id): identified(.pubrel, id, into: &output)
        case .pubcomp(let id): identified(.pubcomp, id, into: &output)
        case .subscribe(let id, let subscriptions): subscribe(id, subscriptions, into: &output)
        case .suback(let id, let granted): suback(id, granted, into: &output)
        case .unsubscribe(let id, let filters): unsubscribe(id, filters, into: &output)
        case .unsuback(let id): identified(.unsuback, id, into: &output)
        case .pingreq: bare(.pingreq, into: &output)
        case .pingresp: bare(.pingresp, into: &output)
        case .disconnect: bare(.disconnect, into: &output)
        }
    }
}

extension MQTTPacketWriter {
    /// Stores a fixed header at the start of `target`, which has room for five bytes, and returns its size.
    @inline(__always)
    private static func header(_ first: UInt8, _ remaining: Int, _ target: UnsafeMutableRawBufferPointer) -> Int {
        target[0] = first
        var position = 1
        var rest = remaining
        while rest > 127 && position < 4 {
            target[position] = UInt8(truncatingIfNeeded: rest) | 0x80
            position += 1
            rest >>= 7
        }
        target[position] = UInt8(truncatingIfNeeded: rest & 127)
        return position + 1
    }

    private static func header(_ type: MQTTPacketType, _ flags: UInt8, _ remaining: Int, into output: inout ByteBuffer)
    {
        _ = output.write(minimum: 5) { header(type.rawValue << 4 | flags, remaining, $0) }
    }

    private static func size(_ text: String) -> Int {
        2 + text.utf8.count
    }

    private static func text(_ text: String, into output: inout ByteBuffer) {
        text.withContiguousUTF8 { bytes in
            output.append(integer: UInt16(truncatingIfNeeded: bytes.count))
            output.append(contentsOf: bytes)
        }
    }

    private static func data(_ bytes: [UInt8], into output: inout ByteBuffer) {
        output.append(integer: UInt16(truncatingIfNeeded: bytes.count))
        output.append(contentsOf: bytes)
    }
}
