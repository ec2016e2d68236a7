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

package typealias MQTTClientHarness = CoreHarness<MQTTClientCore>
package typealias MQTTServerHarness = CoreHarness<MQTTServerCore>

package func mqttClient(
    _ change: (inout MQTTConfiguration) -> Void = { _ in }
) throws(TransportError) -> MQTTClientHarness {
    var configuration = MQTTConfiguration()
    configuration.clientID = "ann"
    change(&configuration)
    return MQTTClientHarness(try MQTTClientCore(configuration))
}

/// The open next connection of a client in a session that its broker has kept.
package func mqttClient(of session: MQTTSession) throws -> MQTTClientHarness {
    var configuration = MQTTConfiguration()
    configuration.clientID = "ann"
    configuration.cleanSession = false
    var client = MQTTClientHarness(try MQTTClientCore(configuration, session: session))
    client.start()
    client.feed([0x20, 2, 1, 0])
    return client
}

package func mqttServer(_ change: (inout MQTTServerConfiguration) -> Void = { _ in }) throws(TransportError)
    -> MQTTServerHarness
{
    var configuration = MQTTServerConfiguration()
    change(&configuration)
    return MQTTServerHarness(try MQTTServerCore(configuration), seed: 2)
}

/// Starts both sides and carries bytes until they are silent.
package func connect(_ client: inout MQTTClientHarness, _ server: inout MQTTServerHarness, slice: Int = .max) {
    server.start()
    client.start()
    exchange(&client, &server, slice: slice)
}

extension CoreHarness where Core: SubscribingCore {
    /// The answers to requests about subscriptions.
    package var answers: [SubscriptionSignal] {
        events.compactMap { if case .signal(let signal) = $0 { signal.subscription } else { nil } }
    }
}

extension CoreHarness where Core: MQTTCore {
    package var signals: [MQTTSignal] {
        events.compactMap { if case .signal(let signal) = $0 { signal.mqtt } else { nil } }
    }

    package var acknowledged: [UInt64] {
        events.compactMap { if case .acknowledged(let id) = $0 { id } else { nil } }
    }

}

extension MQTTClientHarness {
    package mutating func completion(of id: UInt64) -> SendCompletion? { core.completion(of: id, &context) }

    /// Opens a client with the bytes of a broker's CONNACK.
    package mutating func openByHand() {
        start()
        feed([0x20, 2, 0, 0])
        _ = takeOutput()
    }

}

extension MQTTServerHarness {
    /// Opens a server with the bytes of a client's CONNECT.
    package mutating func acceptByHand(keepAlive: UInt16 = 0) {
        start()
        var hello = MQTTConnect(clientID: "bob")
        hello.keepAlive = keepAlive
        feed(encoded(.connect(hello)))
        _ = takeOutput()
    }
}
