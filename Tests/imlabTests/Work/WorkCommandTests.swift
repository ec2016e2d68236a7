import CommandTestSupport
import Foundation
import TestSupport
import Testing

@testable import imlab

@Suite("imlab work", .timeLimit(.minutes(5)), .ownThread)
struct HotPathTests {
    @Test("Each step runs 20 times and finds no mistake", arguments: HotPath.all.map(\.name))
    func works(name: String) throws {
        let path = try #require(HotPath.all.first { $0.name == name })
        try path.prepare()(20)
    }

    @Test("The list has one line for each step, in 80 columns")
    func list() async throws {
        let lines = try await BuiltProgram.imlab.run(["work"]).output.split(separator: "\n")
        #expect(lines.map { $0.prefix { $0 != " " } } == HotPath.all.map { $0.name[...] })
        for line in lines { #expect(line.count <= 80) }
    }

    @Test("Each step has a row in scripts/measure/guard.tsv")
    func bounds() throws {
        let root = URL(fileURLWithPath: #filePath).pathComponents.dropLast(4).joined(separator: "/")
        let table = try String(contentsOfFile: root + "/scripts/measure/guard.tsv", encoding: .utf8)
        let bounded = table.split(separator: "\n").dropFirst().compactMap {
            $0.split(separator: "\t").first.map(String.init)
        }
        #expect(bounded == HotPath.all.map(\.name))
    }
}
