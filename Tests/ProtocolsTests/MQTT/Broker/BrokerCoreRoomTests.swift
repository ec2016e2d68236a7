import Testing

@testable import Protocols

@Suite("MQTT broker: room for subscriptions")
struct BrokerCoreRoomTests {
    @Test("A broker frees no more filters of ended sessions than needed, and none for a session at its limit")
    func noMoreThanNeeded() throws {
        var limits = BrokerCore.Limits()
        limits.maximumSubscriptions = 10
        limits.maximumSubscriptionsPerSession = 8
        var broker = BrokerCore(limits: limits)
        for session in 1...2 as ClosedRange<UInt64> { _ = try broker.connect(session, clientID: "") }
        for number in 0..<8 { #expect(broker.subscribe(1, to: "gone/\(number)", qos: .atMostOnce) != nil) }
        broker.disconnect(1)
        for number in 0..<8 {
            while broker.makeRoom(for: "t/\(number)", of: 2) {}
            #expect(broker.subscribe(2, to: "t/\(number)", qos: .atMostOnce) != nil)
            #expect(broker.subscriptionCount == min(9 + number, 10))
        }
        #expect(broker.subscribe(2, to: "t/8", qos: .atMostOnce) == nil)
        let isMade = broker.makeRoom(for: "t/8", of: 2)
        #expect(!isMade && broker.subscriptionCount == 10)
    }

    @Test("Each call of makeRoom frees one filter of an ended session")
    func filterByFilter() throws {
        var limits = BrokerCore.Limits()
        limits.maximumNodes = 5
        var broker = BrokerCore(limits: limits)
        for session in 1...2 as ClosedRange<UInt64> { _ = try broker.connect(session, clientID: "") }
        for filter in ["a/b", "c/d"] { #expect(broker.subscribe(1, to: filter, qos: .atMostOnce) != nil) }
        broker.disconnect(1)
        #expect(broker.subscribe(2, to: "x/y/z", qos: .atMostOnce) == nil)
        for left in [3, 1] {
            let isMade = broker.makeRoom(for: "x/y/z", of: 2)
            #expect(isMade && broker.nodeCount == left)
        }
        let isMade = broker.makeRoom(for: "x/y/z", of: 2)
        #expect(!isMade)
        #expect(broker.subscribe(2, to: "x/y/z", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.nodeCount == 4)
    }
}
