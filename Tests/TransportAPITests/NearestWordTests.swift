import Testing
import TransportAPI

@Suite struct NearestWordTests {
    @Test("the distance counts insertions, deletions, substitutions and swaps")
    func distances() {
        #expect(editDistance("", "abc") == 3)
        #expect(editDistance("kitten", "sitting") == 3)
        #expect(editDistance("jsno", "json") == 1)
        #expect(editDistance("same", "same") == 0)
    }

    @Test("a word is suggested only if it is near")
    func suggestions() {
        #expect(nearestWord(to: "mqt", in: ["tcp", "mqtt"]) == "mqtt")
        #expect(nearestWord(to: "PROTO", in: ["json", "protobuf"]) == "protobuf")
        #expect(nearestWord(to: "banana", in: ["json", "protobuf"]) == nil)
        #expect(nearestWord(to: String(repeating: "a", count: 100_000), in: ["json"]) == nil)
    }
}
