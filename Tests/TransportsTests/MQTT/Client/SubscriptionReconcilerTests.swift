import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// What a client asks for, in packets that a broker of the tests' own answers.
@Suite("What is subscribed to")
struct SubscriptionReconcilerTests {
    /// A broker, as far as it has to do with subscriptions.
    private struct Broker {
        var filters: [String: MQTTQoS] = [:]
        var refused: Set<String> = []
        /// How many filters it was asked for.
        var asked = 0

        /// What it answers.
        mutating func take(_ packet: SubscriptionReconciler.Packet) -> [MQTTQoS?] {
            switch packet {
            case .subscribe(let subscriptions):
                asked += subscriptions.count
                return subscriptions.map { subscription in
                    guard !refused.contains(subscription.filter) else { return nil }
                    filters[subscription.filter] = subscription.qos
                    return subscription.qos
                }
            case .unsubscribe(let gone):
                for filter in gone { filters[filter] = nil }
                return []
            }
        }

        /// Answers until nothing is asked any more.
        mutating func serve(_ wishes: inout SubscriptionReconciler) {
            while let packet = wishes.next() { _ = wishes.answered(take(packet)) }
        }
    }

    @Test("a session that is gone is asked for everything, one that is present for what has changed")
    func reconnecting() throws {
        var (wishes, broker) = (SubscriptionReconciler(), Broker())
        wishes.want("a")
        wishes.want("b")
        #expect(wishes.next() == nil)
        wishes.linked(to: nil, as: "ann", isPresent: false)
        broker.serve(&wishes)
        #expect(broker.filters == ["a": .atLeastOnce, "b": .atLeastOnce] && broker.asked == 2)

        wishes.linked(to: nil, as: "ann", isPresent: true)
        #expect(wishes.next() == nil)
        wishes.unlinked()
        wishes.want("a", .exactlyOnce)
        _ = wishes.drop("b")
        wishes.want("c")
        wishes.linked(to: nil, as: "ann", isPresent: true)
        #expect(wishes.next() == .unsubscribe(["b"]))
        #expect(wishes.answered([]).map(\.isOver) == [true])
        broker.filters["b"] = nil
        broker.serve(&wishes)
        #expect(broker.filters == ["a": .exactlyOnce, "c": .atLeastOnce] && broker.asked == 4)

        wishes.linked(to: nil, as: "ann", isPresent: false)
        broker.filters = [:]
        broker.serve(&wishes)
        #expect(broker.filters == ["a": .exactlyOnce, "c": .atLeastOnce] && broker.asked == 6)
        // A name that was not heard of may have anything.
        wishes.linked(to: nil, as: "ben", isPresent: true)
        broker.serve(&wishes)
        #expect(broker.asked == 8)
    }

    @Test("each broker is known by what it has itself")
    func brokers() throws {
        var (wishes, here, there) = (SubscriptionReconciler(), Broker(), Broker())
        let endpoints = (try Endpoint("mqtt://here"), try Endpoint("mqtt://there"))
        wishes.want("a")
        wishes.linked(to: endpoints.0, as: "ann", isPresent: false)
        here.serve(&wishes)
        wishes.linked(to: endpoints.1, as: "ann", isPresent: false)
        _ = wishes.drop("a")
        wishes.want("b")
        there.serve(&wishes)
        wishes.linked(to: endpoints.0, as: "ann", isPresent: true)
        here.serve(&wishes)
        #expect(here.filters == ["b": .atLeastOnce] && there.filters == here.filters)
    }

    @Test(
        "an answer that was lost with its connection is asked for again, and the broker is told again of what is gone"
    )
    func lost() {
        var (wishes, broker) = (SubscriptionReconciler(), Broker())
        wishes.linked(to: nil, as: "ann", isPresent: false)
        wishes.want("a")
        #expect(wishes.next() == .subscribe([MQTTSubscription("a", qos: .atLeastOnce)]))
        wishes.linked(to: nil, as: "ann", isPresent: true)
        #expect(wishes.next() == .subscribe([MQTTSubscription("a", qos: .atLeastOnce)]))
        _ = wishes.answered([.atLeastOnce])
        _ = wishes.drop("a")
        #expect(wishes.next() == .unsubscribe(["a"]))
        wishes.linked(to: nil, as: "ann", isPresent: true)
        #expect(wishes.next() == .unsubscribe(["a"]))
        _ = wishes.answered([])
        wishes.linked(to: nil, as: "ann", isPresent: true)
        broker.serve(&wishes)
        #expect(broker.asked == 0)
    }

    @Test("a filter that is refused is given up, unless it was asked for once more meanwhile")
    func refused() {
        var wishes = SubscriptionReconciler()
        wishes.linked(to: nil, as: "ann", isPresent: false)
        wishes.want("a")
        wishes.want("b")
        #expect(wishes.next() != nil)
        wishes.want("b")
        let outcomes = wishes.answered([nil, nil])
        #expect(outcomes.map(\.verdict) == [.refused, .refused] && outcomes.map(\.isOver) == [true, false])
        #expect(wishes.next() == .subscribe([MQTTSubscription("b", qos: .atLeastOnce)]))
        #expect(wishes.answered([.atMostOnce]).map(\.verdict) == [.granted(.atMostOnce)])
        wishes.linked(to: nil, as: "ann", isPresent: false)
        #expect(wishes.next() == .subscribe([MQTTSubscription("b", qos: .atLeastOnce)]))
    }

    @Test("packets bring the filters in order, as many as fit, one packet after the answer to the other")
    func packets() {
        var wishes = SubscriptionReconciler()
        let long = String(repeating: "x", count: SubscriptionReconciler.maximumBytes)
        let filters = (0..<100).map { "t/\($0)" } + [long, "t"]
        for filter in filters { wishes.want(filter) }
        wishes.linked(to: nil, as: "ann", isPresent: false)
        var packets: [[String]] = []
        while case .subscribe(let subscriptions)? = wishes.next() {
            #expect(wishes.next() == nil)
            packets.append(subscriptions.map(\.filter))
            _ = wishes.answered(subscriptions.map(\.qos))
        }
        #expect(packets.flatMap { $0 } == filters)
        #expect(packets.map(\.count) == [64, 36, 1, 1])
    }

    @Test(
        "whatever happens, and whichever answers are lost, in the end the broker has what is wanted",
        arguments: 1...200
    )
    func randomised(seed: UInt64) {
        var random = RandomSource.seeded(seed)
        var (wishes, broker, wanted) = (SubscriptionReconciler(), Broker(), [String: MQTTQoS]())
        var underWay: SubscriptionReconciler.Packet?
        let filters = ["a", "b", "c", "d"]
        broker.refused = ["d"]
        func isOneOf(_ count: UInt64) -> Bool { random.next() % count == 0 }
        func answer() {
            guard let packet = underWay.take() else { return }
            for outcome in wishes.answered(broker.take(packet)) where outcome.isOver && outcome.verdict == .refused {
                #expect(outcome.filter == "d")
                wanted[outcome.filter] = nil
            }
        }
        /// The answer is lost, or the packet itself.
        func lose() {
            if let packet = underWay.take(), isOneOf(2) { _ = broker.take(packet) }
        }
        func connection() {
            lose()
            let isPresent = !isOneOf(4)
            if !isPresent { broker.filters = [:] }
            wishes.linked(to: nil, as: "ann", isPresent: isPresent)
        }
        for _ in 0..<300 {
            let filter = filters.randomElement(using: &random) ?? "a"
            switch random.next() % 8 {
            case 0, 1:
                let qos: MQTTQoS = isOneOf(2) ? .atLeastOnce : .exactlyOnce
                wanted[filter] = qos
                wishes.want(filter, qos)
            case 2:
                wanted[filter] = nil
                _ = wishes.drop(filter, always: isOneOf(2))
            case 3:
                if isOneOf(3) { connection() }
            case 4:
                if isOneOf(3) {
                    lose()
                    wishes.unlinked()
                }
            case 5: answer()
            default:
                if let packet = wishes.next() { underWay = packet }
            }
        }
        connection()
        while let packet = wishes.next() {
            underWay = packet
            answer()
        }
        #expect(broker.filters == wanted)
    }
}

extension SubscriptionReconciler {
    fileprivate mutating func want(_ filter: String, _ qos: MQTTQoS = .atLeastOnce) {
        _ = want(MQTTSubscription(filter, qos: qos))
    }
}
