import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Tests the packets of a client's subscriptions. A broker of the test answers them.
@Suite("Subscriptions of a client")
struct SubscriptionReconcilerTests {
    fileprivate typealias Reconciler = SubscriptionReconciler<SubscriptionRequest>

    /// The subscriptions of a broker.
    private struct Broker {
        var filters: [String: MQTTQoS] = [:]
        var refused: Set<String> = []
        /// The number of filters in the SUBSCRIBE packets that it received.
        var requested = 0

        /// Handles a packet and returns the answer.
        mutating func take(_ packet: Reconciler.Packet) -> [MQTTQoS?] {
            switch packet {
            case .subscribe(let subscriptions):
                requested += subscriptions.count
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

        /// Answers until no request is left.
        mutating func serve(_ reconciler: inout Reconciler) {
            while let packet = reconciler.next() { _ = reconciler.answered(take(packet)) }
        }
    }

    @Test("A client subscribes to everything in a new session, and only to the changes in a present one")
    func reconnecting() throws {
        var (reconciler, broker) = (Reconciler(), Broker())
        reconciler.want("a")
        reconciler.want("b")
        #expect(reconciler.next() == nil)
        reconciler.linked(to: nil, as: "ann", session: 1)
        broker.serve(&reconciler)
        #expect(broker.filters == ["a": .atLeastOnce, "b": .atLeastOnce] && broker.requested == 2)

        reconciler.linked(to: nil, as: "ann", session: 1)
        #expect(reconciler.next() == nil)
        _ = reconciler.unlinked(byPeer: false)
        reconciler.want("a", .exactlyOnce)
        _ = reconciler.drop("b")
        reconciler.want("c")
        reconciler.linked(to: nil, as: "ann", session: 1)
        #expect(reconciler.next() == .unsubscribe(["b"]))
        #expect(reconciler.answered([]).map(\.isOver) == [true])
        broker.filters["b"] = nil
        broker.serve(&reconciler)
        #expect(broker.filters == ["a": .exactlyOnce, "c": .atLeastOnce] && broker.requested == 4)

        reconciler.linked(to: nil, as: "ann", session: 2)
        broker.filters = [:]
        broker.serve(&reconciler)
        #expect(broker.filters == ["a": .exactlyOnce, "c": .atLeastOnce] && broker.requested == 6)
        // The broker may have any subscriptions for a new client identifier.
        reconciler.linked(to: nil, as: "ben", session: 2)
        broker.serve(&reconciler)
        #expect(broker.requested == 8)
    }

    @Test("Each broker has its own list of subscriptions")
    func brokers() throws {
        var (reconciler, here, there) = (Reconciler(), Broker(), Broker())
        let endpoints = (try Endpoint("mqtt://here"), try Endpoint("mqtt://there"))
        reconciler.want("a")
        reconciler.linked(to: endpoints.0, as: "ann", session: 1)
        here.serve(&reconciler)
        reconciler.linked(to: endpoints.1, as: "ann", session: 2)
        _ = reconciler.drop("a")
        reconciler.want("b")
        there.serve(&reconciler)
        reconciler.linked(to: endpoints.0, as: "ann", session: 1)
        here.serve(&reconciler)
        #expect(here.filters == ["b": .atLeastOnce] && there.filters == here.filters)
    }

    @Test(
        "A request whose answer was lost is sent again, also a request to unsubscribe"
    )
    func lost() {
        var (reconciler, broker) = (Reconciler(), Broker())
        reconciler.linked(to: nil, as: "ann", session: 1)
        reconciler.want("a")
        #expect(reconciler.next() == .subscribe([SubscriptionRequest("a", qos: .atLeastOnce)]))
        reconciler.linked(to: nil, as: "ann", session: 1)
        #expect(reconciler.next() == .subscribe([SubscriptionRequest("a", qos: .atLeastOnce)]))
        _ = reconciler.answered([.atLeastOnce])
        _ = reconciler.drop("a")
        #expect(reconciler.next() == .unsubscribe(["a"]))
        reconciler.linked(to: nil, as: "ann", session: 1)
        #expect(reconciler.next() == .unsubscribe(["a"]))
        _ = reconciler.answered([])
        reconciler.linked(to: nil, as: "ann", session: 1)
        broker.serve(&reconciler)
        #expect(broker.requested == 0)
    }

    @Test("A refused filter is dropped unless it was requested again in between")
    func refused() {
        var reconciler = Reconciler()
        reconciler.linked(to: nil, as: "ann", session: 1)
        reconciler.want("a")
        reconciler.want("b")
        #expect(reconciler.next() != nil)
        reconciler.want("b")
        let outcomes = reconciler.answered([nil, nil])
        #expect(outcomes.map(\.verdict) == [.refused, .refused] && outcomes.map(\.isOver) == [true, false])
        #expect(reconciler.next() == .subscribe([SubscriptionRequest("b", qos: .atLeastOnce)]))
        #expect(reconciler.answered([.atMostOnce]).map(\.verdict) == [.granted(.atMostOnce)])
        reconciler.linked(to: nil, as: "ann", session: 2)
        #expect(reconciler.next() == .subscribe([SubscriptionRequest("b", qos: .atLeastOnce)]))
    }

    @Test("Packets carry the filters in order, as many as fit, and each packet waits for the answer to the last one")
    func packets() {
        var reconciler = Reconciler()
        let long = String(repeating: "x", count: Reconciler.maximumBytes)
        let filters = (0..<100).map { "t/\($0)" } + [long, "t"]
        for filter in filters { reconciler.want(filter) }
        reconciler.linked(to: nil, as: "ann", session: 1)
        var packets: [[String]] = []
        while case .subscribe(let subscriptions)? = reconciler.next() {
            #expect(reconciler.next() == nil)
            packets.append(subscriptions.map(\.filter))
            _ = reconciler.answered(subscriptions.map(\.qos))
        }
        #expect(packets.flatMap { $0 } == filters)
        #expect(packets.map(\.count) == [64, 36, 1, 1])
    }

    @Test("A filter is set aside if the broker closes two connections in a row after it, alone, and before its answer")
    func closing() {
        var (reconciler, broker) = (Reconciler(), Broker())
        for filter in ["a", "forbidden", "b"] { reconciler.want(filter) }
        /// Answers until the forbidden filter is requested, and then closes.
        func connection(byPeer: Bool = true) -> [Reconciler.Outcome] {
            reconciler.linked(to: nil, as: "ann", session: nil)
            broker.filters = [:]
            while let packet = reconciler.next() {
                if case .subscribe(let list) = packet, list.contains(where: { $0.filter == "forbidden" }) {
                    return reconciler.unlinked(byPeer: byPeer)
                }
                _ = reconciler.answered(broker.take(packet))
            }
            return []
        }
        #expect(connection().isEmpty && broker.filters.isEmpty)
        // From now on each is alone in its packet.
        #expect(connection().isEmpty && broker.filters.keys.sorted() == ["a"])
        // The others come first. An end by the network is no evidence, so the row begins again.
        #expect(connection(byPeer: false).isEmpty && broker.filters.keys.sorted() == ["a", "b"])
        #expect(connection().isEmpty && broker.filters.keys.sorted() == ["a", "b"])
        let outcomes = connection()
        #expect(outcomes.map(\.filter) == ["forbidden"] && outcomes.map(\.verdict) == [.refused])
        #expect(outcomes.map(\.isOver) == [true])
        #expect(connection().isEmpty && broker.filters.keys.sorted() == ["a", "b"])
        // The app may try again, and an answer ends the suspicion.
        reconciler.want("forbidden")
        #expect(connection().isEmpty)
        reconciler.linked(to: nil, as: "ann", session: nil)
        broker.serve(&reconciler)
        #expect(broker.filters.keys.sorted() == ["a", "b", "forbidden"])
        #expect(connection().isEmpty && connection().isEmpty)
    }

    @Test(
        "The broker has the wanted filters in the end, whatever happens and whichever answers are lost",
        arguments: 1...200
    )
    func randomised(seed: UInt64) {
        var random = RandomSource.seeded(seed)
        var (reconciler, broker, wanted) = (Reconciler(), Broker(), [String: MQTTQoS]())
        var inFlight: Reconciler.Packet?
        var number: UInt64 = 1
        let filters = ["a", "b", "c", "d"]
        broker.refused = ["d"]
        func isOneOf(_ count: UInt64) -> Bool { random.next() % count == 0 }
        func answer() {
            guard let packet = inFlight.take() else { return }
            for outcome in reconciler.answered(broker.take(packet)) where outcome.isOver && outcome.verdict == .refused
            {
                #expect(outcome.filter == "d")
                wanted[outcome.filter] = nil
            }
        }
        /// Loses the answer, or the packet itself.
        func lose() {
            if let packet = inFlight.take(), isOneOf(2) { _ = broker.take(packet) }
        }
        func end(byPeer: Bool) {
            lose()
            for outcome in reconciler.unlinked(byPeer: byPeer) where outcome.isOver { wanted[outcome.filter] = nil }
        }
        func connection() {
            end(byPeer: false)
            if isOneOf(4) {
                number += 1
                broker.filters = [:]
            }
            reconciler.linked(to: nil, as: "ann", session: number)
        }
        for _ in 0..<300 {
            let filter = filters.randomElement(using: &random) ?? "a"
            switch random.next() % 8 {
            case 0, 1:
                let qos: MQTTQoS = isOneOf(2) ? .atLeastOnce : .exactlyOnce
                wanted[filter] = qos
                reconciler.want(filter, qos)
            case 2:
                wanted[filter] = nil
                _ = reconciler.drop(filter, always: isOneOf(2))
            case 3:
                if isOneOf(3) { connection() }
            case 4:
                if isOneOf(3) {
                    lose()
                    _ = reconciler.unlinked(byPeer: false)
                }
            case 5: answer()
            default:
                if let packet = reconciler.next() { inFlight = packet }
            }
        }
        connection()
        while let packet = reconciler.next() {
            inFlight = packet
            answer()
        }
        #expect(broker.filters == wanted)
    }
}

extension SubscriptionReconcilerTests {
    /// A subscription of STOMP, which a broker confirms without a QoS.
    private struct Destination: TopicSubscription {
        enum Grant { case subscribed }

        var filter: String
        var acknowledges = false
    }

    @Test("A filter that the broker refuses by name is given up, and the others are requested again, together")
    func refusedByName() {
        var reconciler = Reconciler()
        for filter in ["a", "b", "c"] { reconciler.want(filter) }
        reconciler.linked(to: nil, as: "", session: nil)
        #expect(reconciler.next() != nil)
        #expect(reconciler.refused("x") == nil)
        let outcome = reconciler.refused("b")
        #expect(outcome?.verdict == .refused && outcome?.isOver == true && !reconciler.wants("b"))
        #expect(reconciler.unlinked(byPeer: true).isEmpty)
        reconciler.linked(to: nil, as: "", session: nil)
        guard case .subscribe(let requests)? = reconciler.next() else {
            Issue.record("nothing is requested")
            return
        }
        #expect(requests.map(\.filter) == ["a", "c"])
    }

    @Test("The subscriptions of another protocol are requested with what belongs to them")
    func otherProtocol() {
        var reconciler = SubscriptionReconciler<Destination>()
        let (first, second) = (Destination(filter: "/queue/a"), Destination(filter: "/queue/b", acknowledges: true))
        _ = reconciler.want(first)
        _ = reconciler.want(second)
        reconciler.linked(to: nil, as: "ann", session: nil)
        #expect(reconciler.next() == .subscribe([first, second]))
        #expect(reconciler.answered([.subscribed, nil]).map(\.verdict) == [.granted(.subscribed), .refused])
        // A session that ends with its connection has no subscriptions on the next one.
        reconciler.linked(to: nil, as: "ann", session: nil)
        #expect(reconciler.next() == .subscribe([first]))
    }
}

extension SubscriptionReconciler<SubscriptionRequest> {
    fileprivate mutating func want(_ filter: String, _ qos: MQTTQoS = .atLeastOnce) {
        _ = want(SubscriptionRequest(filter, qos: qos))
    }
}
