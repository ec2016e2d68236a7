import Testing
import TransportAPI

@testable import Protocols

@Suite("Retained messages")
struct RetainedMessagesTests {
    private typealias Messages = RetainedMessages<MQTTTopic, MQTTPublish>

    private func message(_ topic: String, _ size: Int = 1) -> MQTTPublish {
        MQTTPublish(topic: topic, payload: [UInt8](repeating: 1, count: size))
    }

    /// The topics that a filter finds, and the number of steps.
    private func found(_ filter: String, in messages: Messages) -> (topics: [String], steps: Int) {
        var cursor = RetainedCursor<MQTTTopic>(Array(filter.utf8))
        var (topics, steps) = ([String](), 0)
        while true {
            steps += 1
            switch messages.step(&cursor) {
            case .found(let entry): topics.append(entry.message.topic)
            case .passed: continue
            case .over: return (topics, steps)
            }
        }
    }

    @Test("A filter finds each matching topic once, whatever is kept and deleted in between")
    func randomised() {
        var random = RandomSource.seeded(311)
        let names = ["a", "b", "", "$SYS", "a\u{1}", "ab", "a level of many letters", "ä"]
        func draw(wild: Bool) -> String {
            var parts: [String] = []
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                parts.append(names[Int.random(in: 0..<names.count, using: &random)])
                if wild && Int.random(in: 0..<3, using: &random) == 0 { parts[parts.count - 1] = "+" }
            }
            if wild && Int.random(in: 0..<3, using: &random) == 0 { parts.append("#") }
            let text = parts.joined(separator: "/")
            return text.isEmpty ? "a" : text
        }
        var messages = Messages()
        var model: Set<String> = []
        for round in 0..<6000 {
            let topic = draw(wild: false)
            let isDeleted = Int.random(in: 0..<3, using: &random) == 0
            #expect(messages.keep(message(topic, isDeleted ? 0 : 1)) == true)
            if isDeleted { model.remove(topic) } else { model.insert(topic) }
            #expect(messages.count == model.count)
            guard round % 5 == 0 else { continue }
            let filter = draw(wild: true)
            let topics = found(filter, in: messages).topics
            #expect(Set(topics).count == topics.count)
            #expect(Set(topics) == model.filter { MQTTTopic.matches(filter: filter, topic: $0) }, "\(filter)")
        }
        for topic in model { #expect(messages.keep(message(topic, 0)) == true) }
        #expect(messages.count == 0 && messages.bytes == 0)
        #expect(found("#", in: messages).topics.isEmpty)
    }

    @Test("A paused search finds the remaining topics and the new ones ahead of it, and skips deleted ones")
    func changes() {
        var messages = Messages()
        for number in 100..<900 { #expect(messages.keep(message("t/\(number)")) == true) }
        var cursor = RetainedCursor<MQTTTopic>(Array("t/+".utf8))
        var seen: [String] = []
        while case .found(let entry) = messages.step(&cursor) {
            seen.append(entry.message.topic)
            guard seen.count == 400 else { continue }
            for gone in ["t/100", "t/499", "t/500", "t/700"] { #expect(messages.keep(message(gone, 0)) == true) }
            for new in ["t/1", "t/5000", "t/x", "t/x/y"] { #expect(messages.keep(message(new)) == true) }
        }
        let late = (500..<900).map { "t/\($0)" }.filter { $0 != "t/500" && $0 != "t/700" } + ["t/5000", "t/x"]
        #expect(seen.count == 400 + late.count)
        #expect(Set(seen.suffix(late.count)) == Set(late))
    }

    @Test("A search skips topics that cannot match")
    func skips() {
        var messages = Messages()
        for room in 0..<50 {
            for thing in 0..<100 { #expect(messages.keep(message("rooms/\(room)/things/\(thing)")) == true) }
        }
        #expect(found("rooms/7/things/7", in: messages).steps <= 3)
        let one = found("rooms/7/+/7", in: messages)
        #expect(one.topics == ["rooms/7/things/7"] && one.steps <= 6)
        let across = found("rooms/+/things/7", in: messages)
        #expect(across.topics.count == 50 && across.steps <= 50 * 4)
        #expect(found("rooms/+/people/+", in: messages).steps <= 50 * 3)
        #expect(found("nowhere/#", in: messages).steps <= 2)
    }

    @Test("Topics and bytes are limited, and a topic whose new message does not fit has none")
    func bounds() {
        var messages = Messages(maximumCount: 2, maximumBytes: 20)
        #expect(messages.keep(message("a", 5)) && messages.keep(message("b", 5)))
        #expect(messages.keep(message("c", 1)) == false)
        #expect(messages.keep(message("b", 12)) && messages.bytes == 19)
        #expect(messages.keep(message("a", 8)) == false)
        #expect(found("#", in: messages).topics == ["b"] && messages.bytes == 13)
    }
}
