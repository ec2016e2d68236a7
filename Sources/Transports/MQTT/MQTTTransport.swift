import Protocols
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of MQTT 3.1.1 without TLS: `mqtt://user:password@host/?publish=a/b&subscribe=c/%23`.
    public static let mqtt = mqtt(nil)

    /// The descriptor of MQTT 3.1.1 over TLS: `mqtts://user:password@host/?publish=a/b&subscribe=c/%23`. It needs OpenSSL
    /// 3 on the machine.
    public static let mqttTLS = mqtt(.openSSL)

    /// Returns the descriptor of MQTT 3.1.1.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func mqtt(_ security: StreamSecurity?) -> TransportDescriptor {
        var descriptor = TransportDescriptor.stream(
            security == nil ? "mqtt" : "mqtts",
            defaultPort: security == nil ? 1883 : 8883,
            keepalive: .seconds(60),
            security: security,
            clientSettings: MQTTClientSettings.list,
            serverSettings: MQTTServerSettings.list,
            client: { (endpoint, settings) throws(TransportError) in
                // State that each connection of this transport passes to the next one.
                let core = try MQTTClientCore(
                    settings.own.configuration(endpoint, rhythm: settings.limits.keepaliveInterval),
                    session: MQTTSession()
                )
                return { core }
            },
            server: { (_, settings, _) throws(TransportError) in
                let core = try MQTTServerCore(settings.own.configuration)
                return { _ in core }
            },
            prepare: { $0.prepare($1) }
        )
        descriptor.routeByTopic()
        descriptor.broker = .mqtt(
            BrokerSettings.reader(
                descriptor,
                MQTTServerSettings.list,
                security,
                prepare: { $0.configuration.routesSignals = true },
                makeCore: { (_, settings) throws(TransportError) in
                    let core = try MQTTServerCore(settings.own.configuration)
                    return { client in
                        var core = core
                        core.peer = client.address?.description
                        return core
                    }
                }
            )
        )
        descriptor.annotate = annotatePublish
        descriptor.hasPath = false
        descriptor.encryptedName = security == nil ? "mqtts" : nil
        return descriptor
    }

    /// The header of PUBLISH (MQTT 3.1.1, section 3.3).
    @Sendable
    static func annotatePublish(_ reader: inout WireFieldReader) {
        let qos = reader.peek() >> 1 & 3
        reader.take(1, "PUBLISH, QoS \(qos)\(reader.peek() & 1 == 1 ? ", retained" : "")")
        let (length, count) = reader.varint()
        reader.take(count, "remaining length \(length)")
        let topic = Int(reader.number(2))
        reader.take(2, "length of the topic: \(topic)")
        reader.take(topic, "topic '\(reader.text(topic))'")
        if qos > 0 { reader.take(2, "packet identifier \(reader.number(2))") }
    }
}
