import TransportAPI

@testable import Protocols
@testable import SocketIO
@testable import Transports

/// A client of the broker, with the broker's end of its connection.
final class BrokerPeer {
    let channel = BrokerChannel()
    let driver: ConnectionDriver
    private var reader = MQTTPacketReader(maximumMessageSize: 1000)
    private var packets = 0
    /// The acknowledgements that an honest client would send for the packets received so far.
    private var answers: [MQTTPacket] = []

    init(_ core: MQTTServerCore, on loop: EventLoop) {
        var limits = ConnectionLimits()
        limits.writeBuffer = 300
        limits.readsOnlyWhileRead = true
        driver = ConnectionDriver(core, over: channel, on: loop, limits: limits)
    }

    func say(_ bytes: [UInt8]) {
        guard !channel.isEnded else { return }
        channel.incoming += bytes
    }

    func say(_ packets: [MQTTPacket]) {
        var output = ByteBuffer()
        for packet in packets { MQTTPacketWriter.write(packet, into: &output) }
        say(output.bytes(at: 0, count: output.count) ?? [])
    }

    /// Sends these acknowledgements.
    func answer() {
        say(answers)
        answers = []
    }

    /// Reads the broker's output. It must be whole packets, with CONNACK first and once, and only messages that were
    /// published.
    func read(of published: Set<Payload>) throws {
        if packets == 0, driver.reason?.error?.reason.contains(" speak") == true {
            // A client of another protocol is ended with an answer in that protocol.
            channel.outgoing = []
            return
        }
        var bytes = ByteBuffer()
        bytes.append(contentsOf: channel.outgoing)
        channel.outgoing = []
        while let packet = try reader.next(&bytes) {
            packets += 1
            switch packet {
            case .connack: try ensure(packets == 1, "CONNACK is packet \(packets)")
            case .publish(let publish):
                let payload = Payload(publish.payload, topic: publish.topic)
                try ensure(published.contains(payload), "\(publish) was not published")
                if publish.qos == .atLeastOnce { answers.append(.puback(publish.packetID)) }
                if publish.qos == .exactlyOnce { answers.append(.pubrec(publish.packetID)) }
            case .pubrec(let packetID): answers.append(.pubrel(packetID))
            case .pubrel(let packetID): answers.append(.pubcomp(packetID))
            case .puback, .pubcomp, .suback, .unsuback, .pingresp: break
            default: throw FuzzFailure(description: "the broker sent \(packet)")
            }
            try ensure(packets > 1 || packet.isConnack, "the first packet is \(packet)")
        }
        try ensure(bytes.isEmpty, "the broker sent a part of a packet")
    }
}

extension MQTTPacket {
    fileprivate var isConnack: Bool { if case .connack = self { true } else { false } }
}

/// A byte stream in memory.
final class BrokerChannel: ByteChannel {
    var incoming: [UInt8] = []
    var isEnded = false
    /// Whether the peer accepts written bytes.
    var isReading = true
    var outgoing: [UInt8] = []

    let bytesSent: UInt64 = 0
    let bytesReceived: UInt64 = 0

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        guard !incoming.isEmpty else { return isEnded ? .end : .wouldBlock }
        let piece = incoming.prefix(buffer.count)
        buffer.copyBytes(from: piece)
        incoming.removeFirst(piece.count)
        return .bytes(piece.count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { incoming.isEmpty && !isEnded }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        guard isReading else { return .wouldBlock }
        outgoing += bytes
        return .bytes(bytes.count)
    }

    func shutdownWriting() -> Bool { true }
    func close(abort _: Bool) {}
}
