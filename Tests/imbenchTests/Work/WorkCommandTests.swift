import Foundation
import TestSupport
import Testing

@testable import imbench

@Suite("imbench work", .timeLimit(.minutes(5)), .ownThread)
struct HotPathTests {
    @Test("each step does what it says, as often as it is asked", arguments: HotPath.all.map(\.name))
    func works(name: String) throws {
        let path = try #require(HotPath.all.first { $0.name == name })
        try path.prepare()(20)
    }

    @Test("each step has its bound")
    func bounds() throws {
        let root = URL(fileURLWithPath: #filePath).pathComponents.dropLast(4).joined(separator: "/")
        let table = try String(contentsOfFile: root + "/scripts/guard.tsv", encoding: .utf8)
        let bounded = table.split(separator: "\n").dropFirst().compactMap {
            $0.split(separator: "\t").first.map(String.init)
        }
        #expect(bounded == HotPath.all.map(\.name))
    }
}
