import Testing

@testable import TransportAPI

@Suite("An attached connection")
struct AttachedConnectionTests {
    @Test("A message is too large only for the peer of an open session")
    func sizes() {
        var connection = AttachedConnection()
        #expect(!connection.isTooLarge(1000) && !connection.isOpen)
        connection.open(1, .session, .session, peerLimit: 100)
        #expect(connection.isTooLarge(101) && !connection.isTooLarge(100))
        connection.close()
        #expect(!connection.isTooLarge(101) && connection.style == .session)
        connection.open(2, .origin, .broker, peerLimit: 100)
        #expect(!connection.isTooLarge(101))
    }

    @Test("Lost messages are sent again only in a session over a connection that loses messages")
    func losses() {
        var connection = AttachedConnection()
        for (style, capabilities) in [(.session, .session), (.session, .datagrams), (.plain, .datagrams)]
            as [(Delivery.Style, Capabilities)]
        {
            connection.open(1, style, capabilities, peerLimit: .max)
            #expect(connection.repeatsLosses == (style == .session && !capabilities.isReliable))
        }
    }
}
