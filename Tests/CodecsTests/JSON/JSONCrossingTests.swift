import Codecs
import Foundation
import Testing

/// This package and other parsers read 10,000 random documents, half of them broken. Where they disagree, this package follows
/// RFC 8259, and Docs/reference/codecs.md lists the deviation of the other parser.
@Suite struct JSONCrossingTests {
    private static let seed: UInt64 = 11

    private static let documents: [[UInt8]] = {
        var random = SeededGenerator(state: seed)
        return (0..<10_000).map { $0 % 2 == 0 ? random.jsonDocument() : random.brokenJSONDocument() }
    }()

    private func ours(_ document: [UInt8]) -> Result<JSONValue, CodecError> {
        do throws(CodecError) {
            return .success(try JSONValue(json: document, limits: CodecLimits()))
        } catch {
            return .failure(error)
        }
    }

    /// Reads every document and compares the result with that of the other parser, which is `nil` if the parser rejected it.
    private func compare<T>(
        with theirs: [T?],
        read: ([UInt8], JSONValue, T) -> Set<Deviation>?,
        refused: ([UInt8], CodecError, T) -> Deviation?
    ) throws {
        try #require(theirs.count == Self.documents.count)
        let listed = try Deviation.listed()
        var counts: [Deviation: Int] = [:]
        var agreements = (read: 0, refused: 0)
        for (document, theirs) in zip(Self.documents, theirs) {
            let deviations: Set<Deviation>?
            let ours = ours(document)
            switch (ours, theirs) {
            case (.success(let ours), let theirs?): deviations = read(document, ours, theirs)
            case (.failure(let error), let theirs?): deviations = refused(document, error, theirs).map { [$0] }
            case (.failure, nil): deviations = []
            case (.success, nil): deviations = nil
            }
            for deviation in deviations ?? [] { counts[deviation, default: 0] += 1 }
            if deviations == [] {
                if theirs == nil { agreements.refused += 1 } else { agreements.read += 1 }
            }
            #expect(
                deviations?.allSatisfy { listed.contains($0.rawValue) } == true,
                """
                seed \(Self.seed): \(String(decoding: document, as: UTF8.self).debugDescription)
                \(document)
                ours \(ours), theirs \(theirs.map { "\($0)" } ?? "rejected"), \(deviations.map { "\($0)" } ?? "not explained")
                """
            )
        }
        #expect(
            agreements.read > 4000 && agreements.refused > 3000,
            "there are too few documents of one kind: \(agreements), \(counts)"
        )
    }

    @Test(
        "Python's json module reads and rejects the same documents",
        .enabled(if: PythonPeer.isAvailable, "needs Python")
    )
    func python() throws {
        let answers = try PythonPeer.answers(to: Self.documents, script: JSONRendering.pythonScript)
        try compare(
            with: answers.map { $0.isEmpty ? nil : String(decoding: $0, as: UTF8.self) },
            read: { JSONRendering.text($1) == $2 ? [] : nil },
            refused: Deviation.python
        )
    }

    @Test("Foundation's JSONSerialization reads and rejects the same documents")
    func foundation() throws {
        let answers = Self.documents.map {
            try? JSONSerialization.jsonObject(with: Data($0), options: .fragmentsAllowed)
        }
        try compare(with: answers, read: Deviation.foundation, refused: Deviation.foundation)
    }

    @Test("A skipped value is checked like a value that is read")
    func skipped() {
        struct Nothing: WireMessage {
            mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {}
        }
        for document in Self.documents {
            let skipped = codecError { try JSONCodec().decode(Nothing.self, from: document) }
            let isObject = document.first { ![0x20, 0x0A, 0x0D, 0x09].contains($0) } == UInt8(ascii: "{")
            guard isObject, case .failure(let error) = ours(document) else {
                #expect(skipped == nil || !isObject)
                continue
            }
            // The size of a skipped number is not checked.
            if error.code != .numberOutOfRange { #expect(skipped == error) }
        }
    }
}
