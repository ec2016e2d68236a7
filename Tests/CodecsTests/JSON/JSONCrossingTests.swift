import Codecs
import Foundation
import Testing

/// 10,000 random documents, half of them broken, read by this package and by others. Where they disagree, RFC 8259 and this
/// package agree, and the other parser's deviation is one that Docs/codecs.md lists.
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

    /// Reads every document, and compares with what the other parser made of it: `nil` if it refused.
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
                ours \(ours), theirs \(theirs.map { "\($0)" } ?? "refused"), \(deviations.map { "\($0)" } ?? "not explained")
                """
            )
        }
        #expect(
            agreements.read > 4000 && agreements.refused > 3000,
            "one kind of document is rare: \(agreements), \(counts)"
        )
    }

    @Test("Python's json reads and refuses the same", .enabled(if: PythonPeer.isAvailable, "needs Python"))
    func python() throws {
        let answers = try PythonPeer.answers(to: Self.documents, script: JSONRendering.pythonScript)
        try compare(
            with: answers.map { $0.isEmpty ? nil : String(decoding: $0, as: UTF8.self) },
            read: { JSONRendering.text($1) == $2 ? [] : nil },
            refused: Deviation.python
        )
    }

    @Test("Foundation's JSONSerialization reads and refuses the same")
    func foundation() throws {
        let answers = Self.documents.map {
            try? JSONSerialization.jsonObject(with: Data($0), options: .fragmentsAllowed)
        }
        try compare(with: answers, read: Deviation.foundation, refused: Deviation.foundation)
    }

    @Test("what is passed over is checked like what is read")
    func passedOver() {
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
            // Whoever does not want a number does not mind its size.
            if error.code != .numberOutOfRange { #expect(skipped == error) }
        }
    }
}
