import TestSupport
import Testing
import TransportAPI

@testable import Protocols

private func key(_ change: @escaping (inout STOMPConfiguration) -> Void) -> String? {
    refusedKey { try stompClient(change) }
}

@Suite("STOMP configuration")
struct STOMPConfigurationTests {
    @Test("The defaults are valid")
    func defaults() throws {
        try STOMPConfiguration(host: "a").validate()
    }

    @Test("CONNECT has no text that it cannot carry")
    func connect() {
        #expect(key { $0.host = "" } == "host")
        #expect(key { $0.host = "a\nb" } == "host")
        #expect(key { $0.login = "a\r" } == "login")
        #expect(key { $0.passcode = "a\0" } == "passcode")
        #expect(key { $0.passcode = String(repeating: "x", count: 8193) } == "passcode")
        #expect(key { $0.passcode = String(repeating: "x", count: 8192) } == nil)
        #expect(key { $0.connectHeaders = [STOMPHeader("a", "b\nc")] } == "connectHeaders")
        #expect(key { $0.connectHeaders = [STOMPHeader("a:b", "c")] } == "connectHeaders")
        #expect(key { $0.connectHeaders = [STOMPHeader("host", "c")] } == "connectHeaders")
        #expect(key { $0.connectHeaders = [STOMPHeader("Authorization", "a:b")] } == nil)
    }

    @Test("Further headers cannot replace those of the client")
    func headers() {
        for name in ["destination", "content-length", "content-type", "receipt", "transaction", ""] {
            #expect(key { $0.sendHeaders = [STOMPHeader(name, "x")] } == "sendHeaders")
        }
        for name in ["destination", "id", "ack", "receipt", "content-length"] {
            #expect(key { $0.subscribeHeaders = [STOMPHeader(name, "x")] } == "subscribeHeaders")
        }
        #expect(key { $0.sendHeaders = [STOMPHeader("a", "\0")] } == "sendHeaders")
        #expect(key { $0.sendHeaders = [STOMPHeader("a:\n", "b:\r\n")] } == nil)
    }

    @Test("Destinations are opaque, but neither empty nor without end")
    func destinations() {
        #expect(key { $0.destination = "" } == "destination")
        #expect(key { $0.subscriptions = ["a", "\0"] } == "subscribe")
        #expect(key { $0.subscriptions = [String(repeating: "x", count: 8193)] } == "subscribe")
        #expect(key { $0.subscriptions = Array(repeating: "a", count: 1025) } == "subscribe")
        #expect(key { $0.subscriptions = ["#", "a/+/ ", "*", "a\nb"] } == nil)
    }

    @Test("A content-type is a MIME type")
    func contentType() {
        #expect(key { $0.contentType = "json" } == "contentType")
        #expect(key { $0.contentType = "application/json" } == nil)
    }

    @Test("Numbers and times are in their limits")
    func limits() {
        #expect(key { $0.maximumInFlight = 0 } == "maximumInFlight")
        #expect(key { $0.limits.line = 0 } == "limits.line")
        #expect(key { $0.limits.headers = 0 } == "limits.headers")
        #expect(key { $0.limits.head = 0 } == "limits.head")
        #expect(key { $0.limits.body = 268_435_457 } == "limits.body")
        #expect(key { $0.outgoingHeartBeat = .zero } == "outgoingHeartBeat")
        #expect(key { $0.incomingHeartBeat = .microseconds(999) } == "incomingHeartBeat")
        #expect(key { $0.heartBeatMargin = .zero } == "heartBeatMargin")
        #expect(key { $0.handshakeTimeout = .zero } == "handshakeTimeout")
        #expect(key { $0.receiptTimeout = .zero } == "receiptTimeout")
        #expect(key { $0.closeTimeout = .zero } == "closeTimeout")
    }

    @Test("The passcode and the values of headers are not printed")
    func secrets() {
        var configuration = STOMPConfiguration(host: "a")
        configuration.passcode = "open sesame"
        configuration.connectHeaders = [STOMPHeader("Authorization", "open sesame")]
        #expect(!"\(configuration)".contains("sesame"))
    }
}
