import TransportAPI

@testable import Protocols
@testable import Transports

/// The bytes of a packet.
func encoded(_ packet: MQTTPacket) -> [UInt8] {
    var output = ByteBuffer()
    MQTTPacketWriter.write(packet, into: &output)
    return output.bytes(at: 0, count: output.count) ?? []
}

/// What a reader makes of bytes that arrive `slices` at a time (the rest at once): packets, and what ended them.
func readPackets(
    _ bytes: [UInt8],
    slices: [Int] = [],
    maximumMessageSize: Int = 1 << 20
) -> (packets: [MQTTPacket], failure: TransportError?) {
    var reader = MQTTPacketReader(maximumMessageSize: maximumMessageSize)
    reader.phase = .open
    var input = ByteBuffer()
    var packets: [MQTTPacket] = []
    var rest = bytes[...]
    var sizes = slices.makeIterator()
    do throws(TransportError) {
        repeat {
            let size = sizes.next() ?? .max
            input.append(contentsOf: Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
            repeat {
                while let packet = try reader.next(&input) { packets.append(packet) }
            } while reader.begun != nil
        } while !rest.isEmpty
    } catch {
        return (packets, error)
    }
    return (packets, nil)
}

/// Text with its 16-bit length.
func field(_ text: String) -> [UInt8] {
    [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 255)] + Array(text.utf8)
}

typealias MQTTHarness = CoreHarness<MQTTCore>

func mqttClient(_ change: (inout MQTTConfiguration) -> Void = { _ in }) throws(TransportError) -> MQTTHarness {
    var configuration = MQTTConfiguration()
    configuration.clientID = "ann"
    change(&configuration)
    return MQTTHarness(try MQTTCore(client: configuration))
}

/// A client's next connection in a session that its broker has kept, open.
func mqttClient(of session: MQTTSession) throws -> MQTTHarness {
    var configuration = MQTTConfiguration()
    configuration.clientID = "ann"
    configuration.cleanSession = false
    var client = MQTTHarness(try MQTTCore(client: configuration, session: session))
    client.start()
    client.feed([0x20, 2, 1, 0])
    return client
}

func mqttServer(_ change: (inout MQTTServerConfiguration) -> Void = { _ in }) throws(TransportError) -> MQTTHarness {
    var configuration = MQTTServerConfiguration()
    change(&configuration)
    return MQTTHarness(try MQTTCore(server: configuration), seed: 2)
}

/// Starts both sides and carries bytes until they are silent.
func connect(_ client: inout MQTTHarness, _ server: inout MQTTHarness, slice: Int = .max) {
    server.start()
    client.start()
    exchange(&client, &server, slice: slice)
}

extension CoreHarness where Core == MQTTCore {
    var signals: [MQTTSignal] {
        events.compactMap { if case .signal(let signal) = $0 { signal.mqtt } else { nil } }
    }

    var acknowledged: [UInt64] {
        events.compactMap { if case .acknowledged(let id) = $0 { id } else { nil } }
    }

    var pongs: Int {
        events.reduce(0) { if case .pong = $1 { $0 + 1 } else { $0 } }
    }

    /// A client that a broker of hand-written bytes has let in.
    mutating func openByHand() {
        start()
        feed([0x20, 2, 0, 0])
        _ = takeOutput()
    }

    /// A server that a client of hand-written bytes has opened.
    mutating func acceptByHand(keepAlive: UInt16 = 0) {
        start()
        var hello = MQTTConnect(clientID: "bob")
        hello.keepAlive = keepAlive
        feed(encoded(.connect(hello)))
        _ = takeOutput()
    }
}

func codeOf(_ body: () throws(TransportError) -> some Any) -> TransportError.Code? {
    do throws(TransportError) {
        _ = try body()
        return nil
    } catch {
        return error.code
    }
}
