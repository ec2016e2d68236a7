import Primitives
import Testing

@Suite("Timer queue")
struct TimerQueueTests {
    @Test("Timers are returned in the order of their deadlines, then in the order of adding")
    func order() {
        var queue = TimerQueue<Int>()
        for (value, deadline) in [5, 1, 3, 1, 4].enumerated() { queue.add(value, at: Int64(deadline)) }
        var fired: [Int] = []
        while let value = queue.popDue(4) { fired.append(value) }
        #expect(fired == [1, 3, 2, 4])
        #expect(queue.next == 5)
    }

    @Test(
        "A timer queue agrees with a sorted list through random additions, cancellations and expiries",
        arguments: 1...5
    )
    func random(seed: UInt64) {
        var random = SplitMix(state: seed)
        var queue = TimerQueue<UInt64>()
        var model: [(deadline: Int64, id: UInt64)] = []
        for step in 0..<5000 {
            switch random.next() % 3 {
            case 0,
                1 where step < 4000:
                let deadline = Int64(random.next() % 1000)
                let id = queue.add(UInt64(model.count), at: deadline)
                model.append((deadline, id))
            case 1:
                guard let victim = model.randomElement(using: &random) else { continue }
                #expect(queue.cancel(victim.id) != nil)
                #expect(queue.cancel(victim.id) == nil)
                model.removeAll { $0.id == victim.id }
            default:
                let now = Int64(random.next() % 1000)
                let due = model.filter { $0.deadline <= now }.count
                var popped = 0
                while queue.popDue(now) != nil { popped += 1 }
                #expect(popped == due)
                model.removeAll { $0.deadline <= now }
            }
            #expect(queue.next == model.map(\.deadline).min())
        }
    }
}
