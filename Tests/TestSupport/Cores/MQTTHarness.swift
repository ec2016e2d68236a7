import Protocols
import TransportAPI

/// The bytes of a packet.
package func encoded(_ packet: MQTTPacket) -> [UInt8] {
    var output = ByteBuffer()
    MQTTPacketWriter.write(packet, into: &output)
    return output.bytes(at: 0, count: output.count) ?? []
}

/// A text with its 16-bit length.
package func field(_ text: String) -> [UInt8] {
    [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 255)] + Array(text.utf8)
}

package typealias MQTTHarness = CoreHarness<MQTTCore>

package func mqttClient(_ change: (inout MQTTConfiguration) -> Void = { _ in }) throws(TransportError) -> MQTTHarness {
    var configuration = MQTTConfiguration()
    configuration.clientID = "ann"
    change(&configuration)
    return MQTTHarness(try MQTTCore(client: configuration))
}

/// The open next connection of a client in a session that its broker has kept.
package func mqttClient(of session: MQTTSession) throws -> MQTTHarness {
    var configuration = MQTTConfiguration()
    configuration.clientID = "ann"
    configuration.cleanSession = false
    var client = MQTTHarness(try MQTTCore(client: configuration, session: session))
    client.start()
    client.feed([0x20, 2, 1, 0])
    return client
}

package func mqttServer(_ change: (inout MQTTServerConfiguration) -> Void = { _ in }) throws(TransportError)
    -> MQTTHarness
{
    var configuration = MQTTServerConfiguration()
    change(&configuration)
    return MQTTHarness(try MQTTCore(server: configuration), seed: 2)
}

/// Starts both sides and carries bytes until they are silent.
package func connect(_ client: inout MQTTHarness, _ server: inout MQTTHarness, slice: Int = .max) {
    server.start()
    client.start()
    exchange(&client, &server, slice: slice)
}

extension CoreHarness where Core == MQTTCore {
    package mutating func completion(of id: UInt64) -> SendCompletion? { core.completion(of: id, &context) }

    package var signals: [MQTTSignal] {
        events.compactMap { if case .signal(let signal) = $0 { signal.mqtt } else { nil } }
    }

    package var acknowledged: [UInt64] {
        events.compactMap { if case .acknowledged(let id) = $0 { id } else { nil } }
    }

    /// Opens a client with the bytes of a broker's CONNACK.
    package mutating func openByHand() {
        start()
        feed([0x20, 2, 0, 0])
        _ = takeOutput()
    }

    /// Opens a server with the bytes of a client's CONNECT.
    package mutating func acceptByHand(keepAlive: UInt16 = 0) {
        start()
        var hello = MQTTConnect(clientID: "bob")
        hello.keepAlive = keepAlive
        feed(encoded(.connect(hello)))
        _ = takeOutput()
    }
}
