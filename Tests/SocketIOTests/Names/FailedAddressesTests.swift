import Testing

@testable import SocketIO

@Suite("Addresses that have failed")
struct FailedAddressesTests {
    private let first = SocketAddress(numeric: "::1", port: 1)
    private let second = SocketAddress(numeric: "127.0.0.1", port: 1)

    @Test("They are tried last, until ten minutes have passed")
    func last() throws {
        let (first, second) = (try #require(first), try #require(second))
        var failed = FailedAddresses()
        #expect(failed.order([first, second], at: 0) == [first, second])
        failed.failed(first, at: 5)
        #expect(failed.order([first, second], at: 5) == [second, first])
        #expect(failed.order([first, second], at: 4 + FailedAddresses.memory) == [second, first])
        #expect(failed.order([first, second], at: 5 + FailedAddresses.memory) == [first, second])
    }

    @Test("An address that works again, and another network, end that")
    func forgotten() throws {
        let (first, second) = (try #require(first), try #require(second))
        var failed = FailedAddresses()
        failed.failed(first, at: 0)
        failed.worked(first)
        #expect(failed.order([first, second], at: 0) == [first, second])
        failed.failed(first, at: 0)
        failed.removeAll()
        #expect(failed.order([first, second], at: 0) == [first, second])
    }

    @Test("Among addresses that have all failed, the order stays")
    func all() throws {
        let (first, second) = (try #require(first), try #require(second))
        var failed = FailedAddresses()
        failed.failed(second, at: 0)
        failed.failed(first, at: 1)
        #expect(failed.order([first, second], at: 1) == [first, second])
    }

    @Test("At most 256 are remembered, the latest ones")
    func limit() throws {
        var failed = FailedAddresses()
        for port in 1...UInt16(FailedAddresses.limit + 10) {
            failed.failed(try #require(SocketAddress(numeric: "::1", port: port)), at: Int64(port))
        }
        #expect(failed.count == FailedAddresses.limit)
        let forgotten = try #require(SocketAddress(numeric: "::1", port: 1))
        let other = try #require(SocketAddress(numeric: "127.0.0.1", port: 1))
        #expect(failed.order([forgotten, other], at: 300) == [forgotten, other])
    }
}
