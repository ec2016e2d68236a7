import Testing

@testable import Measuring
@testable import imbench

@Suite struct CorpusTests {
    @Test("The corpus has many messages, in many scripts")
    func standard() {
        let messages = Corpus.standard.messages
        #expect(messages.count >= 60)
        #expect(Set(messages.map(\.language)).count >= 20)
        #expect(messages.allSatisfy { !$0.text.isEmpty && !$0.text.unicodeScalars.contains("\u{fffd}") })
    }

    @Test(
        "A text has exactly the requested number of bytes, for any seed",
        arguments: [0, 1, 2, 3, 31, 32, 256, 1200, 4096, 65_536]
    )
    func exactSize(_ size: Int) {
        for seed in 0..<50 as Range<UInt64> {
            #expect(Corpus.standard.text(bytes: size, seed: seed).utf8.count == size)
        }
    }

    @Test("Equal seeds give equal texts, and different seeds different ones")
    func seeds() {
        let corpus = Corpus.standard
        #expect(corpus.text(bytes: 256, seed: 1) == corpus.text(bytes: 256, seed: 1))
        #expect(corpus.text(bytes: 256, seed: 1) != corpus.text(bytes: 256, seed: 2))
    }

    @Test("A text is not one repeated byte, even without any messages")
    func variety() {
        #expect(Set(Corpus.standard.text(bytes: 256, seed: 1).utf8).count > 20)
        #expect(Set(Corpus(tabSeparated: []).text(bytes: 256, seed: 1).utf8).count > 20)
    }

    @Test("Lines without a tab or without a text are skipped")
    func badLines() {
        let corpus = Corpus(tabSeparated: Array("en\thello\nbroken\n\n\tno tag\nde\thallo\twelt".utf8))
        #expect(corpus.messages == [.init(language: "en", text: "hello"), .init(language: "de", text: "hallo\twelt")])
        #expect(Corpus(tabSeparated: Array("en\t".utf8)).messages.isEmpty)
    }
}
