import Testing

@testable import Protocols

@Suite("MQTT topics")
struct MQTTTopicTests {
    @Test(
        "A topic name with wildcards or U+0000, or an empty one, is rejected",
        arguments: [
            ("a", true), ("/", true), ("a//b", true), (" ", true), ("$SYS/x", true), ("ä/日本", true),
            ("", false), ("+", false), ("a/#", false), ("a+b", false), ("a\u{0}", false),
        ]
    )
    func names(name: String, isValid: Bool) {
        #expect(MQTTTopic.isName(name) == isValid)
    }

    @Test(
        "A filter may contain + as a whole level and # as the last level",
        arguments: [
            ("#", true), ("+", true), ("a/#", true), ("a/+/b", true), ("+/+", true), ("/+", true), ("/", true),
            ("+/#", true), ("a/+", true), ("/#", true),
            ("", false), ("a#", false), ("#/a", false), ("a/#/b", false), ("a+", false), ("+a", false),
            ("a/b+/c", false),
            ("##", false), ("++", false), ("a/+#", false), ("a\u{0}", false),
        ]
    )
    func filters(filter: String, isValid: Bool) {
        #expect(MQTTTopic.isFilter(filter) == isValid)
    }

    @Test("A topic may have 65,535 bytes and not one more")
    func length() {
        let longest = String(repeating: "a", count: 65_535)
        #expect(MQTTTopic.isName(longest) && MQTTTopic.isFilter(longest))
        #expect(!MQTTTopic.isName(longest + "a") && !MQTTTopic.isFilter(longest + "a"))
    }

    @Test(
        "The filters that match a topic match it, are different, and begin with the topic itself",
        arguments: ["a", "a/b", "a/b/c", "a//b", "/", "a/b/c/d/e/f/g/h", "$SYS/a"]
    )
    func matching(topic: String) {
        let filters = MQTTTopic.filters(matching: topic, atMost: 64)
        #expect(filters.first == topic && filters.count <= 64 && Set(filters).count == filters.count)
        for filter in filters {
            #expect(MQTTTopic.isFilter(filter) && MQTTTopic.matches(filter: filter, topic: topic), "\(filter)")
        }
        if topic == "a/b" {
            #expect(
                Set(filters) == ["a/b", "a/b/#", "a/#", "#", "+/b", "a/+", "+/+", "+/b/#", "a/+/#", "+/+/#", "+/#"]
            )
        }
    }

    static let table: [(String, String, Bool)] = [
        ("$share/g/a/+", "a/b", true),
        ("$share/g/a/+", "$share/g/a/b", false),
        ("$share/g/#", "$SYS/x", false),
        ("$share/g/$SYS/#", "$SYS/x", true),
        ("$queue/a", "a", true),
        ("$queue/+", "$queue/a", false),
        ("$share/g", "$share/g", true),
        ("$share//a", "a", false),
        ("$share/+/a", "a", false),
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/#", "sport", true),
        ("sport/#", "sports", false),
        ("#", "a/b/c", true),
        ("#", "/", true),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("+", "finance", true),
        ("+", "/finance", false),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+/#", "a", true),
        ("+/a/#", "b/a", true),
        ("a/+/c", "a//c", true),
        ("a//c", "a//c", true),
        ("a/c", "a//c", false),
        ("a", "A", false),
        ("a", "a/", false),
        ("a/", "a", false),
        ("#", "$SYS/x", false),
        ("+/x", "$SYS/x", false),
        ("+", "$SYS", false),
        ("$SYS/#", "$SYS/x", true),
        ("$SYS/#", "$SYS", true),
        ("$SYS/+", "$SYS/x", true),
        ("a/#", "a/$x", true),
        ("a/+", "a/$x", true),
        ("\u{e9}", "e\u{301}", false),
    ]

    @Test("A filter matches as the specification's examples say", arguments: table)
    func matches(filter: String, topic: String, expected: Bool) {
        #expect(MQTTTopic.matches(filter: filter, topic: topic) == expected)
    }

    @Test("A broker routes as the specification's examples say", arguments: table)
    func routes(filter: String, topic: String, expected: Bool) throws {
        var broker = BrokerCore()
        _ = try broker.connect(1, clientID: "a")
        #expect(broker.subscribe(1, to: filter, qos: .atMostOnce) == .atMostOnce)
        var deliveries: [BrokerCore.Delivery] = []
        broker.route(topic: topic, qos: .atMostOnce, into: &deliveries)
        #expect(deliveries.isEmpty == !expected)
    }
}
