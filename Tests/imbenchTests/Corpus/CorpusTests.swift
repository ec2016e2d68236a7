import Testing

@testable import imbench

@Suite struct CorpusTests {
    @Test("the messages that come with imbench are many, in many scripts")
    func standard() {
        let messages = Corpus.standard.messages
        #expect(messages.count >= 60)
        #expect(Set(messages.map(\.language)).count >= 20)
        #expect(messages.allSatisfy { !$0.text.isEmpty && !$0.text.unicodeScalars.contains("\u{fffd}") })
    }

    @Test(
        "a text has exactly the bytes asked for, whatever the seed",
        arguments: [0, 1, 2, 3, 31, 32, 256, 1200, 4096, 65_536]
    )
    func exactSize(_ size: Int) {
        for seed in 0..<50 as Range<UInt64> {
            #expect(Corpus.standard.text(bytes: size, seed: seed).utf8.count == size)
        }
    }

    @Test("the same seed gives the same text, another seed another")
    func seeds() {
        let corpus = Corpus.standard
        #expect(corpus.text(bytes: 256, seed: 1) == corpus.text(bytes: 256, seed: 1))
        #expect(corpus.text(bytes: 256, seed: 1) != corpus.text(bytes: 256, seed: 2))
    }

    @Test("a text is not one byte repeated, even without any messages")
    func variety() {
        #expect(Set(Corpus.standard.text(bytes: 256, seed: 1).utf8).count > 20)
        #expect(Set(Corpus(tabSeparated: []).text(bytes: 256, seed: 1).utf8).count > 20)
    }

    @Test("lines without a tab or a text are left out")
    func badLines() {
        let corpus = Corpus(tabSeparated: Array("en\thello\nbroken\n\n\tno tag\nde\thallo\twelt".utf8))
        #expect(corpus.messages == [.init(language: "en", text: "hello"), .init(language: "de", text: "hallo\twelt")])
        #expect(Corpus(tabSeparated: Array("en\t".utf8)).messages.isEmpty)
    }
}
