import Protocols
import Testing
import TransportAPI

@testable import Transports

@Suite("The options of STOMP")
struct STOMPOptionsTests {
    private func configuration(
        _ url: String,
        _ change: (inout KeepaliveConfiguration) -> Void = { _ in }
    ) throws -> STOMPConfiguration {
        var keepalive = KeepaliveConfiguration()
        change(&keepalive)
        let endpoint = try Endpoint(url)
        let settings = try STOMPClientSettings.list.read(endpoint, ignoring: []) {
            $0.prepare(ConnectionContext(keepalive: keepalive))
        }
        return try settings.configuration(endpoint, ConnectionLimits(), rhythm: .seconds(60))
    }

    @Test("The URL sets the configuration, and its host and credentials are those of CONNECT")
    func options() throws {
        let read = try configuration(
            "stomp://ann:secret@broker.example/?publish=/queue/a&subscribe=/topic/a&subscribe=/topic/b&ack=client-individual"
                + "&receipt=on&content-type=text/plain&send-header=persistent:true&subscribe-header=prefetch-count:1"
        )
        #expect(read.host == "broker.example" && read.login == "ann" && read.passcode == "secret")
        #expect(read.destination == "/queue/a" && read.subscriptions == ["/topic/a", "/topic/b"])
        #expect(read.ack == .clientIndividual && read.requestsReceipts && read.contentType == "text/plain")
        #expect(read.sendHeaders == [STOMPHeader("persistent", "true")])
        #expect(read.subscribeHeaders == [STOMPHeader("prefetch-count", "1")])
        #expect(try configuration("stomp://h/?host=/").host == "/")
    }

    @Test("A supervisor sets the heart-beats of its connections unless their URL sets them")
    func heartBeats() throws {
        #expect(try configuration("stomp://h").outgoingHeartBeat == .seconds(60))
        let slow = try configuration("stomp://h") { $0.interval = .seconds(180) }
        #expect(slow.outgoingHeartBeat == .seconds(180) && slow.incomingHeartBeat == .seconds(180))
        #expect(try configuration("stomp://h") { $0.interval = .off }.incomingHeartBeat == nil)
        let adaptive = try configuration("stomp://h") { $0.adaptive = AdaptiveKeepaliveConfiguration() }
        #expect(adaptive.incomingHeartBeat == .seconds(60))
        let own = try configuration("stomp://h/?keepalive-interval=7s") { $0.interval = .off }
        #expect(own.incomingHeartBeat == .seconds(7))
    }

    @Test(
        "A wrong option is refused by its name",
        arguments: [
            "send-header=persistent", "send-header=:true", "ack=often", "in-flight=0", "connect-header=login:x",
            "send-header=destination:x", "subscribe-header=id:x", "content-type=text",
        ]
    )
    func refused(query: String) {
        let error = #expect(throws: TransportError.self) {
            try TransportRegistry.standard.transport(for: Endpoint("stomp://h/?\(query)"))
        }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test("A path is refused where it has no effect, with the option to use")
    func path() {
        let error = #expect(throws: TransportError.self) {
            try TransportRegistry.standard.transport(for: Endpoint("stomp://h/queue/a"))
        }
        #expect(error?.reason.contains("publish=TOPIC") == true)
    }
}
