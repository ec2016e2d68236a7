import Testing
import TransportAPI

@testable import Protocols

/// The cost of a message in a trie that was made to be expensive.
@Suite("Topic trie")
struct TopicTrieTests {
    private typealias Trie = TopicTrie<MQTTTopic, BrokerCore.Subscriber>

    /// A trie in which the topic `a/a/…`, of 11 levels, leads to 2,048 nodes at the same depth, each with a child `x…`.
    private func wide(_ name: String) -> Trie {
        var trie = Trie()
        for bits in 0..<2048 {
            let levels = (0..<11).map { bits >> $0 & 1 == 0 ? "a" : "+" } + [name]
            let node = levels.joined(separator: "/").withContiguousUTF8 { trie.insert($0) }
            trie.nodes[Int(node)].subscribers.append(.init(session: Int32(bits), qos: .atMostOnce))
        }
        return trie
    }

    private func match(_ trie: inout Trie, _ topic: String) -> (found: Int, examined: Int) {
        let before = trie.examined
        topic.withContiguousUTF8 { trie.match($0) }
        return (trie.matched.count, trie.examined - before)
    }

    private static let head = String(repeating: "a/", count: 11)

    @Test("A level is scanned and hashed once, however many nodes are at its depth", arguments: [1, 50, 1000])
    func once(length: Int) {
        let name = String(repeating: "x", count: length)
        var trie = wide(name)
        let topic = Self.head + name
        let (found, examined) = match(&trie, topic)
        #expect(found == 2048 && examined <= 2 * topic.utf8.count)
    }

    @Test("A level that is longer than all names is not hashed, and still matches wildcards")
    func tooLong() {
        var trie = wide("x")
        for filter in [Self.head + "+", "a/#"] {
            let node = filter.withContiguousUTF8 { trie.insert($0) }
            trie.nodes[Int(node)].subscribers.append(.init(session: 1, qos: .atMostOnce))
        }
        let topic = Self.head + String(repeating: "x", count: 65_000)
        let (found, examined) = match(&trie, topic)
        // Each short level is hashed. The long one is only searched for its end.
        #expect(found == 2 && examined <= topic.utf8.count + 11)
    }

    @Test("Empty levels, and topics that end above or below all filters, match correctly")
    func edges() {
        var trie = Trie()
        for filter in ["a//b", "a/+/b", "/", "+/+", "a/#"] {
            let node = filter.withContiguousUTF8 { trie.insert($0) }
            trie.nodes[Int(node)].subscribers.append(.init(session: 1, qos: .atMostOnce))
        }
        for (topic, found) in [("a//b", 3), ("a/x/b", 2), ("/", 2), ("a", 1), ("a/", 2), ("a//b/c", 1), ("b", 0)] {
            #expect(match(&trie, topic).found == found)
        }
    }

    @Test("A trie whose filters are removed loses their nodes and edges")
    func pruning() {
        var trie = Trie()
        let filters = (0..<500).map { "root/\($0 % 20)/+/\($0)/#" }
        for filter in filters { _ = filter.withContiguousUTF8 { trie.insert($0) } }
        #expect(trie.nodeCount > 1000)
        for filter in filters {
            let node = filter.withContiguousUTF8 { trie.find($0) }
            #expect(node != nil)
            if let node { trie.prune(node) }
        }
        #expect(trie.nodeCount == 1)
        #expect(trie.edgeCount == 0 && (0..<trie.buckets.count).allSatisfy { trie.buckets[$0] == -1 })
    }

    @Test("Filters are found while others are added and removed, and reuse the nodes of removed ones")
    func reuse() {
        var trie = Trie()
        var generator = RandomSource.seeded(11)
        var present: Set<Int> = []
        for _ in 0..<20_000 {
            let number = Int(generator.next() % 1500)
            let filter = "a\(number % 7)/\(number)/c"
            if present.remove(number) != nil {
                if let node = filter.withContiguousUTF8({ trie.find($0) }) { trie.prune(node) }
            } else {
                _ = filter.withContiguousUTF8 { trie.insert($0) }
                present.insert(number)
            }
        }
        for number in 0..<1500 {
            let node = "a\(number % 7)/\(number)/c".withContiguousUTF8 { trie.find($0) }
            #expect((node != nil) == present.contains(number))
        }
        // There are two nodes for each filter, and the seven first levels.
        #expect(trie.nodeCount == 1 + 7 + present.count * 2 && trie.edgeCount == 7 + present.count * 2)
    }
}
