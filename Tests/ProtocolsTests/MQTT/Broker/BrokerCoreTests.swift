import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// A second implementation of the rules of section 4.7, level by level, for comparison.
private func naiveMatch(_ filter: [Substring], _ topic: [Substring]) -> Bool {
    if topic.first?.first == "$", filter.first == "+" || filter.first == "#" { return false }
    for (index, level) in filter.enumerated() {
        if level == "#" { return true }
        guard index < topic.count, level == "+" || level == topic[index] else { return false }
    }
    return filter.count == topic.count
}

private func levels(_ text: String) -> [Substring] {
    text.split(separator: "/", omittingEmptySubsequences: false)
}

extension BrokerCore {
    fileprivate mutating func deliveries(_ topic: String, qos: MQTTQoS = .exactlyOnce) -> [UInt64: MQTTQoS] {
        var list: [Delivery] = []
        route(topic: topic, qos: qos, into: &list)
        let byID = Dictionary(list.map { ($0.session, $0.qos) }, uniquingKeysWith: { first, _ in first })
        #expect(byID.count == list.count, "a session got a message twice")
        return byID
    }
}

extension BrokerCore {
    mutating func connect(_ session: UInt64, clientID: String) throws(TransportError) -> UInt64? {
        try connect(session, clientID: Array(clientID.utf8))
    }
}

@Suite("MQTT broker")
struct BrokerCoreTests {
    @Test("A message goes to each session once, at the lower of its own QoS and the highest granted one")
    func overlap() throws {
        var broker = BrokerCore()
        _ = try broker.connect(1, clientID: "a")
        _ = try broker.connect(2, clientID: "b")
        _ = try broker.connect(3, clientID: "c")
        #expect(broker.subscribe(1, to: "a/b", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.subscribe(1, to: "a/+", qos: .atLeastOnce) == .atLeastOnce)
        #expect(broker.subscribe(1, to: "#", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.subscribe(2, to: "a/#", qos: .exactlyOnce) == .exactlyOnce)
        #expect(broker.subscribe(3, to: "b", qos: .exactlyOnce) == .exactlyOnce)
        #expect(broker.deliveries("a/b") == [1: .atLeastOnce, 2: .exactlyOnce])
        #expect(broker.deliveries("a/b", qos: .atLeastOnce) == [1: .atLeastOnce, 2: .atLeastOnce])
        #expect(broker.deliveries("a/b", qos: .atMostOnce) == [1: .atMostOnce, 2: .atMostOnce])
        #expect(broker.deliveries("a") == [1: .atMostOnce, 2: .exactlyOnce])
        #expect(broker.deliveries("c") == [1: .atMostOnce])
    }

    @Test("Subscribing again changes the QoS, and unsubscribing ends the subscription")
    func again() throws {
        var broker = BrokerCore()
        _ = try broker.connect(1, clientID: "a")
        #expect(broker.subscribe(1, to: "t", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.subscribe(1, to: "t", qos: .atLeastOnce) == .atLeastOnce)
        #expect(broker.subscriptionCount == 1)
        #expect(broker.deliveries("t") == [1: .atLeastOnce])
        #expect(broker.unsubscribe(1, from: "t/x") == false)
        #expect(broker.unsubscribe(2, from: "t") == false)
        #expect(broker.subscribe(1, to: "\u{e9}", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.unsubscribe(1, from: "e\u{301}") == false)
        #expect(broker.unsubscribe(1, from: "\u{e9}") == true)
        #expect(broker.unsubscribe(1, from: "t") == true)
        #expect(broker.unsubscribe(1, from: "t") == false)
        #expect(broker.deliveries("t").isEmpty)
        #expect(broker.subscriptionCount == 0)
    }

    @Test(
        "One member of a shared subscription gets each message, in turn, and members without a connection come last",
        arguments: ["$share/g/", "$queue/"]
    )
    func shared(prefix: String) throws {
        var broker = BrokerCore()
        for session in 1...4 as ClosedRange<UInt64> { _ = try broker.connect(session, clientID: "") }
        for session in 1...3 as ClosedRange<UInt64> {
            #expect(broker.subscribe(session, to: prefix + "a/+", qos: .atLeastOnce) == .atLeastOnce)
        }
        #expect(broker.subscribe(4, to: "$share/other/a/#", qos: .exactlyOnce) == .exactlyOnce)
        let turns = (0..<6).map { _ in broker.deliveries("a/b") }
        #expect(turns.allSatisfy { $0.count == 2 && $0[4] == .exactlyOnce })
        for session in 1...3 as ClosedRange<UInt64> {
            #expect(turns.filter { $0[session] == .atLeastOnce }.count == 2)
        }
        #expect(broker.deliveries("b").isEmpty && broker.deliveries("$SYS/b").isEmpty)
        broker.note(1, isAbsent: true)
        broker.note(2, isAbsent: true)
        for _ in 0..<4 { #expect(broker.deliveries("a/b")[3] == .atLeastOnce) }
        broker.note(3, isAbsent: true)
        #expect(broker.deliveries("a/b").count == 2)
        // A session that also has an ordinary subscription gets one copy.
        #expect(broker.subscribe(4, to: "a/b", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.deliveries("a/b")[4] == .exactlyOnce)
        #expect(broker.unsubscribe(3, from: prefix + "a/+") == true)
        #expect(broker.unsubscribe(3, from: prefix + "a/+") == false)
        broker.disconnect(2)
        broker.note(1, isAbsent: false)
        for _ in 0..<3 { #expect(broker.deliveries("a/b")[1] == .atLeastOnce) }
        broker.disconnect(1)
        #expect(broker.deliveries("a/b") == [4: .exactlyOnce])
        broker.disconnect(4)
        while broker.clear(atMost: 1) {}
        #expect(broker.subscriptionCount == 0 && broker.nodeCount == 1)
    }

    @Test("A search for a member of a group removes the members that are gone, so that no other search meets them")
    func goneMembers() throws {
        var broker = BrokerCore()
        let last: UInt64 = 1001
        for session in 1...last {
            _ = try broker.connect(session, clientID: "")
            #expect(broker.subscribe(session, to: "$share/g/t", qos: .atLeastOnce) == .atLeastOnce)
        }
        for session in 1..<last { broker.disconnect(session) }
        #expect(broker.subscriptionCount == 1001)
        #expect(broker.deliveries("t") == [last: .atLeastOnce])
        #expect(broker.deliveries("t") == [last: .atLeastOnce])
        // All others were on the way to it.
        #expect(broker.subscriptionCount == 1)
        broker.disconnect(last)
        #expect(broker.deliveries("t").isEmpty)
        #expect(broker.subscriptionCount == 1)
        while broker.clear(atMost: 1) {}
        #expect(broker.subscriptionCount == 0 && broker.nodeCount == 1 && broker.sessionCount == 0)
        // The ended sessions have left nothing.
        _ = try broker.connect(1, clientID: "")
        #expect(broker.subscribe(1, to: "$share/g/t", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.deliveries("t") == [1: .atMostOnce])
        #expect(broker.unsubscribe(1, from: "$share/g/t") && broker.nodeCount == 1)
    }

    @Test(
        "A group's message goes to a member with a connection, wherever the turn is and whoever else is gone or absent"
    )
    func searches() throws {
        var random = RandomSource.seeded(5)
        for _ in 0..<500 {
            var broker = BrokerCore()
            let count = UInt64.random(in: 1...12, using: &random)
            for session in 1...count {
                _ = try broker.connect(session, clientID: "")
                _ = broker.subscribe(session, to: "$share/g/t", qos: .atMostOnce)
            }
            for _ in 0..<Int.random(in: 0...12, using: &random) { _ = broker.deliveries("t") }
            var (present, absent) = (Set<UInt64>(), Set<UInt64>())
            for session in 1...count {
                switch Int.random(in: 0...5, using: &random) {
                case 0: present.insert(session)
                case 1, 2:
                    broker.note(session, isAbsent: true)
                    absent.insert(session)
                default: broker.disconnect(session)
                }
            }
            let receivers = present.isEmpty ? absent : present
            // They take turns, so each has one of as many messages.
            let turns = (0..<receivers.count).map { _ in broker.deliveries("t").keys.first }
            #expect(
                receivers.isEmpty
                    ? broker.deliveries("t").isEmpty : turns.allSatisfy { $0.map(receivers.contains) == true }
            )
            if present.isEmpty { #expect(Set(turns).count == absent.count) }
            for session in 1...count { broker.disconnect(session) }
            while broker.clear(atMost: 1) {}
            #expect(broker.subscriptionCount == 0 && broker.nodeCount == 1)
        }
    }

    @Test("Shared subscriptions count towards the limits of a session and of a filter")
    func sharedLimits() throws {
        var limits = BrokerCore.Limits()
        limits.maximumSubscriptionsPerSession = 3
        limits.maximumGroupsPerFilter = 2
        var broker = BrokerCore(limits: limits)
        _ = try broker.connect(1, clientID: "a")
        _ = try broker.connect(2, clientID: "b")
        #expect(broker.subscribe(1, to: "$share/a/t", qos: .atMostOnce) != nil)
        #expect(broker.subscribe(1, to: "$share/b/t", qos: .atMostOnce) != nil)
        #expect(broker.subscribe(1, to: "$share/c/t", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "t", qos: .atMostOnce) != nil)
        #expect(broker.subscribe(1, to: "u", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "$share/a/t", qos: .atLeastOnce) == .atLeastOnce)
        #expect(broker.subscribe(2, to: "$share/b/t", qos: .atMostOnce) != nil)
        // These are ordinary filters, because no filter follows a group.
        #expect(broker.subscribe(2, to: "$share/b", qos: .atMostOnce) != nil)
        #expect(broker.deliveries("$share/b") == [2: .atMostOnce])
    }

    @Test("A second session of the same client replaces the first")
    func takeover() throws {
        var broker = BrokerCore()
        #expect(try broker.connect(1, clientID: "a") == nil)
        _ = broker.subscribe(1, to: "t", qos: .atMostOnce)
        #expect(try broker.connect(2, clientID: "a") == 1)
        #expect(broker.sessionCount == 1)
        #expect(broker.deliveries("t").isEmpty)
        _ = broker.subscribe(2, to: "t", qos: .atMostOnce)
        // The late end of the first connection changes nothing.
        broker.disconnect(1)
        #expect(broker.deliveries("t") == [2: .atMostOnce])
        #expect(try broker.connect(3, clientID: "") == nil)
        #expect(try broker.connect(4, clientID: "") == nil)
        #expect(try broker.connect(5, clientID: "\u{e9}") == nil)
        #expect(try broker.connect(6, clientID: "e\u{301}") == nil)
        broker.disconnect(2)
        #expect(try broker.connect(7, clientID: "a") == nil)
        #expect(codeOf { () throws(TransportError) in try broker.connect(7, clientID: "z") } == .busy)
    }

    @Test("A broker limits its sessions, and the number, length and depth of their filters")
    func limits() throws {
        var limits = BrokerCore.Limits()
        limits.maximumSessions = 2
        limits.maximumSubscriptionsPerSession = 2
        limits.maximumSubscriptions = 3
        limits.maximumFilterLevels = 3
        limits.maximumFilterLength = 10
        var broker = BrokerCore(limits: limits)
        _ = try broker.connect(1, clientID: "a")
        _ = try broker.connect(2, clientID: "b")
        #expect(codeOf { () throws(TransportError) in try broker.connect(3, clientID: "c") } == .serverUnavailable)
        #expect(try broker.connect(3, clientID: "b") == 2)
        #expect(broker.subscribe(9, to: "a", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "a#", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "a/b/c/d", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "a2345678901", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "a/b/#", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.subscribe(1, to: "b", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.subscribe(1, to: "c", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "a", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "b", qos: .atLeastOnce) == .atLeastOnce)
        #expect(broker.subscribe(3, to: "c", qos: .atMostOnce) == .atMostOnce)
        #expect(broker.subscribe(3, to: "d", qos: .atMostOnce) == nil)
        #expect(broker.deliveries("a/b/c/d/e/f") == [1: .atMostOnce])
        #expect(broker.unsubscribe(1, from: "b") == true)
        #expect(broker.subscribe(3, to: "d", qos: .atMostOnce) == .atMostOnce)
    }

    @Test("An ended session gets no messages, and its filters are cleared in parts and never block other sessions")
    func clearing() throws {
        var limits = BrokerCore.Limits()
        limits.maximumSubscriptions = 10
        var broker = BrokerCore(limits: limits)
        _ = try broker.connect(1, clientID: "a")
        _ = try broker.connect(2, clientID: "b")
        for number in 0..<8 { #expect(broker.subscribe(1, to: "t/\(number)", qos: .atMostOnce) != nil) }
        #expect(broker.subscribe(2, to: "t/0", qos: .atMostOnce) != nil)
        broker.disconnect(1)
        #expect(broker.deliveries("t/0") == [2: .atMostOnce] && broker.deliveries("t/1").isEmpty)
        #expect(broker.clear(atMost: 4) == true && broker.subscriptionCount == 5)
        _ = try broker.connect(3, clientID: "a")
        for number in 0..<9 {
            while broker.makeRoom(for: "t/\(number)", of: 3) {}
            #expect(broker.subscribe(3, to: "t/\(number)", qos: .atLeastOnce) != nil)
        }
        #expect(broker.clear() == false && broker.subscriptionCount == 10 && broker.nodeCount == 11)
        #expect(broker.deliveries("t/0") == [2: .atMostOnce, 3: .atLeastOnce])
        #expect(broker.deliveries("t/1") == [3: .atLeastOnce])
    }

    @Test("The levels of filters are limited for each session, for all together, and behind many wildcards")
    func nodes() throws {
        var limits = BrokerCore.Limits()
        limits.maximumNodesPerSession = 6
        limits.maximumNodes = 12
        limits.maximumWildNodes = 2
        var broker = BrokerCore(limits: limits)
        for session in 1...3 as ClosedRange<UInt64> { _ = try broker.connect(session, clientID: "") }
        #expect(broker.subscribe(1, to: "a/b/c/d", qos: .atMostOnce) != nil)
        #expect(broker.subscribe(1, to: "a/b/c", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(1, to: "a/b", qos: .atMostOnce) != nil)
        #expect(broker.nodeCount == 5)
        #expect(broker.subscribe(2, to: "+/+/+/x/y", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(2, to: "+/+/+/x", qos: .atMostOnce) != nil)
        #expect(broker.subscribe(3, to: "+/b/+/x/+", qos: .atMostOnce) == nil)
        #expect(broker.subscribe(3, to: "+/+/+/x", qos: .atMostOnce) != nil)
        #expect(broker.subscribe(3, to: "u/v", qos: .atMostOnce) != nil)
        #expect(broker.nodeCount == 11)
        #expect(broker.subscribe(2, to: "w/x", qos: .atMostOnce) == nil)
        #expect(broker.deliveries("p/q/r/x") == [2: .atMostOnce, 3: .atMostOnce])
        // A removed filter makes room.
        #expect(broker.unsubscribe(1, from: "a/b/c/d") == true)
        #expect(broker.subscribe(1, to: "w/x/y", qos: .atMostOnce) != nil)
        for session in 1...3 as ClosedRange<UInt64> { broker.disconnect(session) }
        #expect(broker.clear() == false)
        #expect(broker.nodeCount == 1)
    }

    @Test("Filters with many wildcards are limited, because one topic would visit all of them")
    func wildNodes() throws {
        var limits = BrokerCore.Limits()
        limits.maximumNodesPerSession = .max
        limits.maximumSubscriptionsPerSession = .max
        limits.maximumWildNodes = 500
        var broker = BrokerCore(limits: limits)
        _ = try broker.connect(1, clientID: "")
        var granted = 0
        for bits in 0..<4096 {
            let levels = (0..<12).map { bits >> $0 & 1 == 0 ? "a" : "+" }
            let isGranted = broker.subscribe(1, to: levels.joined(separator: "/") + "/x", qos: .atMostOnce) != nil
            if isGranted { granted += 1 }
            if bits.nonzeroBitCount < FilterCost<MQTTTopic>.wildFrom { #expect(isGranted) }
        }
        // All filters with few wildcards are granted, and some of the others.
        #expect(granted > 1 + 12 + 66 && broker.nodeCount < 500 + 1000)
        #expect(broker.deliveries(Array(repeating: "a", count: 12).joined(separator: "/") + "/x") == [1: .atMostOnce])
    }

    @Test("The trie agrees with the rules on random filters and topics, while sessions come and go")
    func randomised() throws {
        var random = RandomSource.seeded(2014)
        let names = ["a", "b", "", "$SYS", "long-level-name", "ä"]
        func draw(wild: Bool) -> String {
            var parts: [String] = []
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                parts.append(names[Int.random(in: 0..<names.count, using: &random)])
                if wild && Int.random(in: 0..<3, using: &random) == 0 { parts[parts.count - 1] = "+" }
            }
            if wild && Int.random(in: 0..<4, using: &random) == 0 { parts.append("#") }
            let text = parts.joined(separator: "/")
            return text.isEmpty ? "a" : text
        }
        var broker = BrokerCore()
        var model: [UInt64: [String: MQTTQoS]] = [:]
        for round in 0..<6_000 {
            let session = UInt64.random(in: 1...25, using: &random)
            let filter = draw(wild: true)
            switch Int.random(in: 0..<20, using: &random) {
            case 0:
                broker.disconnect(session)
                model[session] = nil
                _ = broker.clear(atMost: 3)
            case 1...6:
                let expected = model[session]?.removeValue(forKey: filter) != nil
                #expect(broker.unsubscribe(session, from: filter) == expected)
            default:
                if model[session] == nil {
                    model[session] = [:]
                    #expect(try broker.connect(session, clientID: "c\(session)") == nil)
                }
                let qos = MQTTQoS(rawValue: UInt8.random(in: 0...2, using: &random)) ?? .atMostOnce
                #expect(broker.subscribe(session, to: filter, qos: qos) == qos)
                model[session]?[filter] = qos
            }
            guard round % 3 == 0 else { continue }
            let topic = draw(wild: false)
            let parts = levels(topic)
            let expected = model.compactMapValues { filters in
                filters.filter { naiveMatch(levels($0.key), parts) }.values.max()
            }
            #expect(broker.deliveries(topic) == expected)
            for (filter, _) in model[session] ?? [:] {
                #expect(MQTTTopic.matches(filter: filter, topic: topic) == naiveMatch(levels(filter), parts))
            }
        }
        #expect(broker.clear() == false)
        #expect(broker.subscriptionCount == model.values.reduce(0) { $0 + $1.count })
        for session in model.keys { broker.disconnect(session) }
        #expect(broker.clear() == false)
        #expect(broker.subscriptionCount == 0 && broker.sessionCount == 0)
    }
}
