import Testing

@testable import TransportAPI

/// Tests the account of the messages that a connection was handed.
@Suite("The handover to a connection")
struct HandoverTests {
    private var handover = Handover()

    private mutating func hand(_ count: Int, to connection: Int, completesSends: Bool = false) {
        for _ in 0..<count { handover.add(to: connection, completesSends: completesSends) }
    }

    @Test("A connection that ends after it has settled all its messages holds up nothing")
    mutating func settled() {
        hand(2, to: 1)
        for _ in 1...2 { #expect(handover.settle(by: 1) == true) }
        #expect(handover.ended() == true)
        #expect(!handover.isHolding && !handover.isOver(attached: 0))
    }

    @Test("After a connection has ended, nothing is handed over until it has settled all its messages")
    mutating func holds() {
        hand(2, to: 1)
        #expect(handover.ended() == false)
        #expect(handover.isHolding && !handover.isOver(attached: 2))
        #expect(handover.settle(by: 1) == true)
        #expect(!handover.isOver(attached: 2))
        #expect(handover.settle(by: 1) == true)
        #expect(handover.isOver(attached: 2))
        handover.takeBack()
        #expect(!handover.isHolding)
    }

    @Test("A connection that has returned a message and is still attached holds up its messages until it has ended")
    mutating func attached() {
        hand(1, to: 1)
        #expect(handover.settle(by: 1) == true)
        handover.hold()
        #expect(handover.isHolding && !handover.isOver(attached: 1) && handover.isOver(attached: 0))
    }

    @Test("Outcomes of messages that were taken back do not count")
    mutating func late() {
        hand(1, to: 1)
        handover.takeBack()
        #expect(handover.settle(by: 1) == false)
        hand(1, to: 2)
        #expect(handover.settle(by: 1) == false)
        #expect(handover.ended() == false)
    }

    @Test("Whether the next connection completes messages is that of the connection that has them")
    mutating func completed() {
        #expect(!handover.isCompletedByNext && !handover.leavesMessages)
        handover.attached(completesSends: true)
        hand(1, to: 1, completesSends: true)
        #expect(handover.isCompletedByNext && handover.leavesMessages)
        handover.takeBack()
        handover.attached(completesSends: false)
        hand(1, to: 2)
        #expect(!handover.isCompletedByNext && handover.leavesMessages)
    }
}
