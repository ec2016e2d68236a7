/// What a well-formed filter takes in a trie.
struct FilterShape {
    private(set) var levels = 1
    /// How many of them are the third `+`, or come behind it.
    private(set) var wildLevels = 0

    init(_ filter: UnsafeRawBufferPointer) {
        var wildcards = 0
        for byte in filter {
            if byte == MQTTTopic.separator {
                levels += 1
                if wildcards >= TopicTrie.wildFrom { wildLevels += 1 }
            } else if byte == MQTTTopic.singleLevel {
                wildcards += 1
                if wildcards == TopicTrie.wildFrom { wildLevels += 1 }
            }
        }
    }
}
