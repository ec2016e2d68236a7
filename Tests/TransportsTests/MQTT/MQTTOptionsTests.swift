import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("MQTT options of URLs")
struct MQTTOptionsTests {
    @Test("The URL sets the timeouts and both windows", arguments: ["mqtt", "mqtt+ws"])
    func options(scheme: String) throws {
        let text = "\(scheme)://h/?ping-timeout=3s&acknowledgement-timeout=7s&in-flight=5"
        let endpoint = try Endpoint(text)
        let list = scheme == "mqtt" ? MQTTClientSettings.list : MQTTClientSettings.webSocketList
        let configuration = try list.read(endpoint).configuration(endpoint, rhythm: nil)
        #expect(configuration.pingTimeout == .seconds(3) && configuration.acknowledgementTimeout == .seconds(7))
        #expect(configuration.maximumInFlight == 5 && configuration.maximumExactlyOnceInFlight == 5)
        for wrong in ["ping-timeout=0s", "acknowledgement-timeout=soon", "ping-timeout=-1s"] {
            let code = codeOf { () throws(TransportError) in
                try TransportRegistry.standard.transport(for: Endpoint("\(scheme)://h/?\(wrong)"))
            }
            #expect(code == .invalidConfiguration)
        }
        let file = """
            {"endpoints": ["\(text)"]}
            """
        #expect(try TransportConfiguration(json: file.utf8).endpoints == [endpoint])
    }

    @Test("Over WebSocket, the URL accepts only the options of MQTT and of the handshake")
    func overWebSocket() throws {
        let registry = TransportRegistry.standard
        let transport = try registry.transport(for: Endpoint("mqtt+ws://u:p@h/mqtt?publish=a&qos=1&header=X:1"))
        #expect(transport.capabilities.routesByTopic && transport.capabilities.acknowledgesMessages)
        let endpoint = try Endpoint("mqtt+ws://h/?deflate=on")
        let code = codeOf { () throws(TransportError) in try registry.transport(for: endpoint) }
        #expect(code == .invalidConfiguration)
    }

    @Test("Messages leave before CONNACK only on request", arguments: ["mqtt", "mqtt+ws"])
    func earlyPublish(scheme: String) throws {
        for (options, isEarly) in [("", false), ("early-publish=off", false), ("early-publish=on", true)] {
            let endpoint = try Endpoint("\(scheme)://h/?\(options)")
            #expect(try MQTTClientSettings.list.read(endpoint).configuration.publishesEarly == isEarly)
        }
    }

    @Test("Over WebSocket, both protocols share the handshake timeout")
    func handshakeTimeout() throws {
        let endpoint = try Endpoint("mqtt+ws://127.0.0.1/?handshake-timeout=3s")
        let settings = try MQTTServerSettings.webSocketList.read(endpoint)
        #expect(try settings.webSocket(endpoint, ConnectionLimits()).handshakeTimeout == .seconds(3))
    }
}
