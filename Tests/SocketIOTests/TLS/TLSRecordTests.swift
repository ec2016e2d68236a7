import Testing

@testable import SocketIO

@Suite("Records of TLS")
struct TLSRecordTests {
    private func front(_ bytes: [UInt8]) -> TLSRecord.Front {
        bytes.withUnsafeBytes { TLSRecord.front(of: $0) }
    }

    @Test("A record is whole with its last byte, and what follows it does not count")
    func whole() {
        let record: [UInt8] = [23, 3, 3, 0, 4, 1, 2, 3, 4]
        for count in 0..<record.count { #expect(front(Array(record.prefix(count))) == .incomplete) }
        #expect(front(record) == .whole(9))
        #expect(front(record + [0]) == .whole(9))
        #expect(front([22, 3, 1, 0, 0]) == .whole(5))
    }

    @Test("The first two bytes show that the peer speaks no TLS")
    func foreign() {
        for type in UInt8.min...UInt8.max {
            #expect(front([type]) == ((20...24).contains(type) ? .incomplete : .foreign))
        }
        #expect(front([22, 2]) == .foreign)
        #expect(front(Array("HTTP/1.1 400".utf8)) == .foreign)
    }

    @Test("A record that is longer than allowed is known by its header")
    func tooLong() {
        #expect(front([23, 3, 3, 0x48, 0x00]) == .incomplete)
        #expect(front([23, 3, 3, 0x48, 0x01]) == .tooLong(18_433))
    }

    @Test("The refusal of plain text is the alert that a client recognizes")
    func refusal() {
        #expect(front(TLSRecord.refusal) == .whole(TLSRecord.refusal.count))
        #expect(TLSRecord.refusal.withUnsafeBytes { TLSRecord.isUnexpectedMessage($0) })
        #expect(!([21, 3, 1, 0, 2, 2, 40] as [UInt8]).withUnsafeBytes { TLSRecord.isUnexpectedMessage($0) })
        #expect(!TLSRecord.isUnexpectedMessage(UnsafeRawBufferPointer(start: nil, count: 0)))
    }
}
