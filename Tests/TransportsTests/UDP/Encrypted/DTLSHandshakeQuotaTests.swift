import Testing

@testable import Transports

@Suite("The quota of a handshake over DTLS")
struct DTLSHandshakeQuotaTests {
    private var quota = DTLSHandshakeQuota()

    private func record(_ type: UInt8, epoch: UInt8) -> [UInt8] {
        [type, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 0, 0, 1, 7]
    }

    private mutating func admit(_ datagram: [UInt8]) -> [UInt8] {
        datagram.withUnsafeBytes { Array(quota.admit($0)) }
    }

    @Test("Datagrams beyond the 512th are dropped, and only those that count")
    mutating func datagrams() {
        let flight = record(22, epoch: 0)
        for _ in 0..<1000 { #expect(admit([1, 2, 3]).isEmpty) }
        for _ in 0..<1000 { #expect(admit(record(23, epoch: 0)).isEmpty) }
        for _ in 0..<512 { #expect(admit(flight) == flight) }
        #expect(admit(flight).isEmpty)
    }

    @Test("Eight early messages and eight other encrypted records are admitted, each from its own quota")
    mutating func earlyRecords() {
        let (message, finished) = (record(23, epoch: 1), record(22, epoch: 1))
        for _ in 0..<8 { #expect(admit(message) == message) }
        #expect(admit(message).isEmpty)
        for _ in 0..<8 { #expect(admit(finished) == finished) }
        #expect(admit(finished).isEmpty)
        // A record that is not encrypted continues the handshake, up to the first record beyond the quota.
        let flight = record(22, epoch: 0)
        #expect(admit(flight + finished + flight) == flight)
    }

    @Test("Messages beyond their quota take no datagram from the handshake")
    mutating func flood() {
        for _ in 0..<2000 { _ = admit(record(23, epoch: 1)) }
        #expect(admit(record(22, epoch: 0)) == record(22, epoch: 0))
    }
}
