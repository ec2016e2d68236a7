import Testing

@testable import Transports

@Suite("The receipts of a connection")
struct ReceiptsTests {
    @Test("A receiver confirms all earlier messages by requesting the next one")
    func requests() {
        var receipts = Receipts(areSent: true)
        for _ in 0..<3 { receipts.delivered() }
        #expect(receipts.dueAtRequest == 3)
        let confirmed = receipts.confirm(receipts.dueAtRequest)
        #expect(confirmed == 3)
        #expect(receipts.dueAtRequest == 0)
    }

    @Test("A receiver that confirms itself confirms no more than it got, and nothing by a request")
    func byHand() {
        var receipts = Receipts(areSent: true)
        receipts.confirmByHand()
        for _ in 0..<3 { receipts.delivered() }
        #expect(receipts.dueAtRequest == 0)
        let confirmed = [2, 2, 1].map { receipts.confirm($0) }
        #expect(confirmed == [2, 1, 0])
    }

    @Test("A protocol without receipts confirms nothing")
    func none() {
        var receipts = Receipts(areSent: false)
        receipts.delivered()
        #expect(receipts.dueAtRequest == 0)
        let confirmed = receipts.confirm(1)
        #expect(confirmed == 0)
    }
}
