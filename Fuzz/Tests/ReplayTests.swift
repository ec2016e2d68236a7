import Foundation
import Testing

/// Replays the corpora and the inputs of former crashes through the functions that the fuzzer calls.
@Suite("Fuzzed inputs") struct ReplayTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    @Test("Each input ends in events or in one typed error, in any slices", arguments: FuzzTarget.all.map(\.name))
    func replay(name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let corpus = try Self.files("Corpora", name)
        #expect(!corpus.isEmpty)
        for file in corpus + (try Self.files("Crashes", name)) {
            let bytes = [UInt8](try Data(contentsOf: file))
            do { try target.run(bytes) } catch { Issue.record("\(file.lastPathComponent): \(error)") }
        }
    }

    @Test("Each folder of files belongs to a target", arguments: ["Corpora", "Crashes"])
    func folders(name: String) throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.appendingPathComponent(name).path)
        let targets = Set(FuzzTarget.all.map(\.name))
        #expect(folders.filter { !$0.hasPrefix(".") && !targets.contains($0) } == [])
    }

    /// The files of one target. The array is empty if the target has no folder.
    private static func files(_ kind: String, _ target: String) throws -> [URL] {
        let folder = folder.appendingPathComponent(kind).appendingPathComponent(target)
        guard FileManager.default.fileExists(atPath: folder.path) else { return [] }
        return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .sorted { $0.path < $1.path }
    }
}
