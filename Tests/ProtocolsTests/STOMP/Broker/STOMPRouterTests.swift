import Testing

@testable import Protocols

@Suite("The subscriptions of a STOMP broker")
struct STOMPRouterTests {
    private func routed(_ destination: String, _ router: inout STOMPRouter) -> Set<UInt64> {
        var receivers: [UInt64] = []
        router.route(destination, into: &receivers)
        #expect(Set(receivers).count == receivers.count)
        return Set(receivers)
    }

    @Test("A message goes to each subscription that its destination matches")
    func routes() {
        var router = STOMPRouter()
        let destinations = ["/topic/a", "/topic/a.b", "/topic/a.*", "/topic/a.#", "/topic/a.b", "*", "#"]
        let added = destinations.enumerated().map { router.add(UInt64($0.offset), to: $0.element) }
        #expect(added == [Bool](repeating: true, count: 7))
        #expect(routed("/topic/a", &router) == [0, 3, 5, 6])
        #expect(routed("/topic/a.b", &router) == [1, 2, 3, 4, 6])
        #expect(routed("/topic/a.b.c", &router) == [3, 6])
        #expect(routed("a", &router) == [5, 6])
    }

    @Test("A subscription that has ended gets nothing, and the others of its destination go on")
    func removes() {
        var router = STOMPRouter()
        let added = [1, 2, 3, 4, 5, 5].map { router.add($0, to: "/topic/a") }
        #expect(added == [true, true, true, true, true, false])
        for number in [1, 4, 5, 9] as [UInt64] { router.remove(number) }
        #expect(routed("/topic/a", &router) == [2, 3] && router.count == 2)
        router.remove(2)
        router.remove(3)
        #expect(routed("/topic/a", &router).isEmpty)
    }

    @Test("Each limit refuses a further subscription")
    func limits() {
        func added(_ destinations: [String], _ change: (inout STOMPRouter.Limits) -> Void) -> [Bool] {
            var limits = STOMPRouter.Limits()
            change(&limits)
            var router = STOMPRouter(limits: limits)
            return destinations.enumerated().map { router.add(UInt64($0.offset), to: $0.element) }
        }
        #expect(added(["a", "b", "a"]) { $0.maximumSubscriptions = 2 } == [true, true, false])
        #expect(added(["abc", "abcd", ""]) { $0.maximumLength = 3 } == [true, false, false])
        #expect(added(["a.b", "a.b.c"]) { $0.maximumLevels = 2 } == [true, false])
        #expect(added(["a.b", "a.b", "c"]) { $0.maximumNodes = 3 } == [true, true, false])
        #expect(added(["*.*.*.a", "*.*.b"]) { $0.maximumWildNodes = 1 } == [false, true])
        #expect(added(["abc", "d"]) { $0.maximumNameBytes = 3 } == [true, false])
    }
}
