import Testing

@testable import Transports

@Suite("The datagrams of a client's handshake over DTLS")
struct DTLSHandshakeFilterTests {
    private static let second: Int64 = 1_000_000_000
    private var filter = DTLSHandshakeFilter(deadline: 10 * second)

    /// A record of this type that is not encrypted.
    private func record(_ type: UInt8, _ content: [UInt8], epoch: UInt8 = 0) -> [UInt8] {
        [type, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 0, 0, UInt8(content.count)] + content
    }

    private var flight: [UInt8] { record(22, [2, 0, 0, 0]) }
    private var warning: [UInt8] { record(21, [1, 90]) }
    private var fatal: [UInt8] { record(21, [2, 40]) }
    private var plain: [UInt8] { record(21, [2, 10]) }

    private mutating func receive(_ datagram: [UInt8], sent: UInt64 = 1, now: Int64 = 0) -> [UInt8] {
        datagram.withUnsafeBytes { Array(filter.receive($0, sent: sent, now: now)) }
    }

    @Test("A part of the handshake goes to the engine at once")
    mutating func flights() {
        #expect(receive(flight) == flight)
        #expect(filter.alertDue == nil)
    }

    @Test("An alert waits for a second, and then goes to the engine")
    mutating func alert() {
        #expect(receive(fatal, now: 5).isEmpty)
        #expect(filter.alertDue == 5 + Self.second)
        #expect(filter.takeAlert() == fatal)
        #expect(filter.takeAlert() == nil)
        #expect(filter.alertDue == nil)
    }

    @Test("An alert is forgotten if the handshake continues, but not if anything else arrives")
    mutating func forgottenAlert() {
        _ = receive(fatal)
        _ = receive(record(23, [1], epoch: 1))
        _ = receive(Array("no DTLS".utf8))
        #expect(filter.alertDue != nil)
        _ = receive(flight)
        #expect(filter.alertDue == nil)
    }

    @Test("An alert that follows a part of the handshake in one datagram waits, and the part does not")
    mutating func divided() {
        _ = receive(warning, now: 0)
        #expect(receive(flight + fatal, now: 7) == flight)
        #expect(filter.alertDue == 7 + Self.second)
        #expect(filter.takeAlert() == fatal)
    }

    @Test("An alert waits no longer than the attempt, and at least a moment")
    mutating func deadline() {
        _ = receive(fatal, now: 10 * Self.second - 100_000_000)
        #expect(filter.alertDue == 10 * Self.second - DTLSHandshakeFilter.alertMargin)
        _ = filter.takeAlert()
        _ = receive(fatal, now: 10 * Self.second)
        #expect(filter.alertDue == 10 * Self.second + 1)
    }

    @Test("A fatal alert replaces a warning and nothing replaces it, while the first one sets the time")
    mutating func severalAlerts() {
        _ = receive(warning, now: 1)
        _ = receive(fatal, now: 2)
        _ = receive(warning, now: 3)
        #expect(filter.alertDue == 1 + Self.second)
        #expect(filter.takeAlert() == fatal)
    }

    @Test("The alert of a server that does not know the client waits only if the server has sent something else")
    mutating func plainAlert() {
        #expect(receive(plain).isEmpty)
        #expect(filter.alertDue == nil)
        #expect(filter.lateSentence.contains("by the alert that plain servers send"))
        _ = receive(flight)
        _ = receive(plain)
        #expect(filter.takeAlert() == plain)
    }

    @Test("A flight that several datagrams answer is one round trip")
    mutating func roundTrips() {
        _ = receive(flight, sent: 1)
        _ = receive(flight, sent: 1)
        #expect(filter.roundTrips == 1)
        _ = receive(fatal, sent: 2)
        #expect(filter.roundTrips == 1)
        _ = receive(flight, sent: 3)
        #expect(filter.roundTrips == 2)
    }

    @Test("The sentence about a late handshake says what came")
    mutating func sentences() {
        #expect(filter.lateSentence.contains("did not answer the DTLS handshake"))
        _ = receive(flight)
        #expect(filter.lateSentence.contains("did not complete the DTLS handshake"))
        _ = receive([1, 2, 3])
        _ = receive([1])
        #expect(filter.lateSentence.contains("2 datagrams that are not DTLS"))
    }
}
