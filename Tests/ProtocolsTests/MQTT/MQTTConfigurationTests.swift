import Testing
import TransportAPI

@testable import Protocols

@Suite("MQTT configuration")
struct MQTTConfigurationTests {
    @Test("The defaults are allowed")
    func defaults() throws {
        try MQTTConfiguration().validate()
        try MQTTServerConfiguration().validate()
    }

    static let mistakes: [(String, @Sendable (inout MQTTConfiguration) -> Void)] = [
        ("keepAlive", { $0.keepAlive = 65_536 }),
        ("keepAlive", { $0.keepAlive = -1 }),
        ("clientID", { $0.clientID = "a\u{0}" }),
        ("clientID", { $0.clientID = String(repeating: "a", count: 65_536) }),
        ("clientID", { $0.cleanSession = false }),
        (
            "clientID",
            {
                $0.cleanSession = false
                $0.clientID = ""
            }
        ),
        ("user", { $0.user = "\u{0}" }),
        ("password", { $0.password = [1] }),
        (
            "password",
            {
                $0.user = "u"
                $0.password = Array(repeating: 0, count: 65_536)
            }
        ),
        ("will", { $0.will = MQTTWill(topic: "a/+", payload: []) }),
        ("will", { $0.will = MQTTWill(topic: "a", payload: Array(repeating: 0, count: 65_536)) }),
        ("publish", { $0.publishTopic = "a/#" }),
        ("publish", { $0.publishTopic = "" }),
        ("subscribe", { $0.subscriptions = [MQTTSubscription("a#")] }),
        ("subscribe", { $0.subscriptions = Array(repeating: MQTTSubscription("a"), count: 4097) }),
        ("maximumInFlight", { $0.maximumInFlight = 0 }),
        ("maximumInFlight", { $0.maximumInFlight = 65_536 }),
        ("maximumExactlyOnceInFlight", { $0.maximumExactlyOnceInFlight = 0 }),
        ("maximumMessageSize", { $0.maximumMessageSize = 0 }),
        ("maximumMessageSize", { $0.maximumMessageSize = 268_369_917 }),
        ("handshakeTimeout", { $0.handshakeTimeout = .zero }),
        ("pingTimeout", { $0.pingTimeout = .zero }),
        ("acknowledgementTimeout", { $0.acknowledgementTimeout = .seconds(-1) }),
    ]

    @Test("A wrong value is rejected by the name of its key", arguments: mistakes)
    func refused(key: String, change: @Sendable (inout MQTTConfiguration) -> Void) {
        var configuration = MQTTConfiguration()
        change(&configuration)
        let bad = configuration
        do throws(TransportError) {
            _ = try MQTTClientCore(bad)
            Issue.record("the value was allowed")
        } catch {
            #expect(error.code == .invalidConfiguration)
            #expect(error.reason.hasPrefix(key))
        }
    }

    @Test("The largest message allowed fits the remaining length with the longest topic")
    func largest() throws {
        #expect(MQTTCheck.maximumMessageSize + 65_539 == 268_435_455)
        var configuration = MQTTConfiguration()
        configuration.maximumMessageSize = MQTTCheck.maximumMessageSize
        try configuration.validate()
    }
}
