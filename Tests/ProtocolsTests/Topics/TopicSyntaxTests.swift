import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Topics of another syntax")
struct TopicSyntaxTests {
    /// A syntax whose hidden topics begin with the byte before the separator.
    private enum Neighbours: TopicSyntax {
        static var separator: UInt8 { UInt8(ascii: ".") }
        static var singleLevel: UInt8 { UInt8(ascii: "?") }
        static var multiLevel: UInt8 { UInt8(ascii: ">") }
        static var multiLevelMatchesNone: Bool { true }
        static var hidden: UInt8? { UInt8(ascii: "-") }
    }

    private struct Note: TopicMessage {
        var topic: String
        var payload: [UInt8] = [1]
    }

    /// The filters and topics of one syntax, and all three ways to find which of them match.
    private struct Board<Syntax: TopicSyntax> {
        var trie = TopicTrie<Syntax, String>()
        var retained = RetainedMessages<Syntax, Note>()

        /// Adds a filter, at most once.
        mutating func add(_ filter: String) {
            let node = filter.withContiguousUTF8 { trie.insert($0) }
            trie.nodes[Int(node)].subscribers = [filter]
        }

        /// The added filters that match a topic.
        mutating func filters(of topic: String) -> Set<String> {
            topic.withContiguousUTF8 { trie.match($0) }
            return Set(trie.matched.flatMap { trie.nodes[Int($0)].subscribers })
        }

        /// The retained topics that match a filter. Each is found once.
        func topics(of filter: String) -> Set<String> {
            var cursor = RetainedCursor<Syntax>(Array(filter.utf8))
            var topics: Set<String> = []
            // No search needs more steps than topics, and one more for each level of each of them.
            for _ in 0..<10 * (retained.count + 1) {
                switch retained.step(&cursor) {
                case .found(let entry): #expect(topics.insert(entry.message.topic).inserted, "\(entry.message.topic)")
                case .passed: continue
                case .over: return topics
                }
            }
            Issue.record("the search for \(filter) does not end")
            return topics
        }
    }

    /// The rules in their plainest form.
    private func isMatch<Syntax: TopicSyntax>(_: Syntax.Type, _ filter: String, _ topic: String) -> Bool {
        func levels(_ text: String) -> [[UInt8]] {
            text.utf8.split(separator: Syntax.separator, omittingEmptySubsequences: false).map(Array.init)
        }
        let (filter, topic) = (levels(filter), levels(topic))
        let wildcards = [[Syntax.singleLevel], [Syntax.multiLevel]]
        if let hidden = Syntax.hidden, topic[0].first == hidden, wildcards.contains(filter[0]) { return false }
        for (index, level) in filter.enumerated() {
            if level == [Syntax.multiLevel] { return topic.count > index || Syntax.multiLevelMatchesNone }
            guard index < topic.count, level == [Syntax.singleLevel] || level == topic[index] else { return false }
        }
        return filter.count == topic.count
    }

    @Test(
        "Subjects of NATS match as its documentation says",
        arguments: [
            ("a.*", "a.b", true), ("a.*", "a", false), ("a.*", "a.b.c", false), ("*.b", "a.b", true),
            ("a.>", "a.b.c", true),
            ("a.>", "a.b", true), ("a.>", "a", false), (">", "a", true), ("*.>", "a", false), ("*.>", "$a.b", true),
            ("a.b", "a/b", false), ("a/b", "a/b", true), ("a.+", "a.b", false), ("a.#", "a.b", false), ("a", "a", true),
        ]
    )
    func subjects(filter: String, topic: String, matches: Bool) {
        var board = Board<Subjects>()
        board.add(filter)
        #expect(board.retained.keep(Note(topic: topic)) == true)
        #expect(Subjects.matches(filter: filter, topic: topic) == matches)
        let filters = board.filters(of: topic)
        #expect(filters == (matches ? [filter] : []))
        #expect(board.topics(of: filter) == (matches ? [topic] : []))
    }

    private func compare<Syntax: TopicSyntax>(_ syntax: Syntax.Type, _ names: [String], seed: UInt64) {
        var random = RandomSource.seeded(seed)
        let separator = String(UnicodeScalar(Syntax.separator))
        func draw(wild: Bool) -> String {
            var levels: [String] = []
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let isWild = wild && Int.random(in: 0..<3, using: &random) == 0
                let name = names[Int.random(in: 0..<names.count, using: &random)]
                levels.append(isWild ? String(UnicodeScalar(Syntax.singleLevel)) : name)
            }
            if wild, Int.random(in: 0..<3, using: &random) == 0 {
                levels.append(String(UnicodeScalar(Syntax.multiLevel)))
            }
            return levels.joined(separator: separator)
        }
        var board = Board<Syntax>()
        let filters = Set((0..<300).map { _ in draw(wild: true) })
        let topics = Set((0..<300).map { _ in draw(wild: false) })
        for filter in filters { board.add(filter) }
        for topic in topics { #expect(board.retained.keep(Note(topic: topic)) == true) }
        var found = 0
        for topic in topics {
            let expected = filters.filter { isMatch(syntax, $0, topic) }
            found += expected.count
            let inTrie = board.filters(of: topic)
            #expect(inTrie == expected, "\(topic)")
            #expect(filters.filter { Syntax.matches(filter: $0, topic: topic) } == expected, "\(topic)")
        }
        for filter in filters {
            #expect(board.topics(of: filter) == topics.filter { isMatch(syntax, filter, $0) }, "\(filter)")
        }
        #expect(found > 500)
    }

    @Test(
        "The trie, the search for retained messages and a plain comparison find the same",
        arguments: 1...5 as ClosedRange<UInt64>
    )
    func ways(seed: UInt64) {
        // Bytes before and after the separator, which comes first in the order of topics.
        let names = ["a", "b", "a!", "a-b", "a/", "$a", "ä", "-a", "a long level of letters"]
        compare(Subjects.self, names, seed: seed)
        compare(Neighbours.self, names, seed: seed)
        compare(MQTTTopic.self, names, seed: seed)
    }

    @Test("The bytes of a message that is buffered in several places count once, whatever its type")
    func quota() {
        let quota = QueuedBytesQuota()
        let note = Note(topic: "a.b", payload: [UInt8](repeating: 1, count: 1000))
        quota.add(note)
        #expect(quota.bytes == note.bufferedBytes && quota.bytes == 3 + 1000 + 64)
        quota.add(note)
        #expect(quota.bytes == 3 + 1000 + 2 * 64)
        quota.remove(note)
        quota.remove(note)
        #expect(quota.bytes == 0)
    }
}
