import Testing

@testable import Protocols

@Suite("Room in an MQTT broker")
struct BrokerCoreRoomTests {
    @Test("is made of no more filters of who is gone than it takes, and of none for who may have no more")
    func asMuchAsItTakes() throws {
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

    @Test("is made filter by filter for who asks for it so")
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
