import Testing
import TransportAPI

@Suite struct SpellingSuggestionTests {
    @Test("The distance counts insertions, deletions, substitutions and swaps")
    func distances() {
        #expect(editDistance("", "abc") == 3)
        #expect(editDistance("kitten", "sitting") == 3)
        #expect(editDistance("jsno", "json") == 1)
        #expect(editDistance("same", "same") == 0)
    }

    @Test("A word is suggested only if it is near")
    func suggestions() {
        #expect(spellingSuggestion(for: "mqt", in: ["tcp", "mqtt"]) == "mqtt")
        #expect(spellingSuggestion(for: "PROTO", in: ["json", "protobuf"]) == "protobuf")
        #expect(spellingSuggestion(for: "banana", in: ["json", "protobuf"]) == nil)
        #expect(spellingSuggestion(for: String(repeating: "a", count: 100_000), in: ["json"]) == nil)
    }

    @Test("No word of yes or no suggests its opposite")
    func opposites() {
        let flag = ["on", "off", "true", "false"]
        for word in ["no", "n", "NO", "none", "never", "disabled"] {
            #expect(spellingSuggestion(for: word, in: flag) == "off")
        }
        for word in ["yes", "y", "enabled"] { #expect(spellingSuggestion(for: word, in: flag) == "on") }
        #expect(spellingSuggestion(for: "onn", in: flag) == "on")
    }
}
