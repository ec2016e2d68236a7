import Primitives
import Testing

@Suite("Deque")
struct DequeTests {
    @Test("A deque agrees with an array through random additions, removals and changes", arguments: 1...5)
    func random(seed: UInt64) {
        var random = SplitMix(state: seed)
        var queue = Deque<Int>()
        var model: [Int] = []
        for step in 0..<20_000 {
            // Grows for a while, then shrinks.
            let adds = step / 2_000 % 2 == 0 ? 3 : 1
            switch Int(random.next() % 5) {
            case 0..<adds:
                queue.append(step)
                model.append(step)
            case 4 where !model.isEmpty:
                let offset = Int(random.next() % UInt64(model.count))
                queue[offset] += 7
                model[offset] += 7
                #expect(queue[offset] == model[offset])
            case 3 where model.count > 1_000:
                let offset = Int(random.next() % UInt64(model.count))
                #expect(queue.remove(at: offset) == model.remove(at: offset))
            default:
                #expect(queue.popFirst() == (model.isEmpty ? nil : model.removeFirst()))
            }
            #expect(queue.count == model.count && queue.first == model.first)
            if step % 1_000 == 0 { #expect(Array(queue) == model && Array(Deque(model)) == model) }
        }
    }

    @Test("A deque releases an element as soon as it is removed")
    func release() {
        final class Element {}
        var queue = Deque<Element>()
        weak var first: Element?
        do {
            let element = Element()
            first = element
            queue.append(element)
        }
        for _ in 0..<100 { queue.append(Element()) }
        #expect(first != nil)
        _ = queue.popFirst()
        #expect(first == nil)
    }

    @Test("A deque keeps its value when its copy changes")
    func copies() {
        var queue = Deque<Int>()
        for number in 0..<10 { queue.append(number) }
        var copy = queue
        _ = copy.popFirst()
        copy[0] = 99
        #expect(queue.count == 10 && queue.first == 0 && queue[1] == 1 && copy.first == 99)
    }
}
