import Foundation
import Testing

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import imbench

@Suite struct FilesTests {
    @Test("A report replaces the former content of the file")
    func replaces() throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write("report", "long old text")
        try folder.write("report", "new")
        #expect(readFile(folder.path + "/report", limit: 100) == "new")
        #expect(readFile(folder.path + "/report", limit: 2) == nil)
        #expect(readFile(folder.path + "/none", limit: 2) == nil)
    }

    @Test("A command that ends without a report leaves no new file, and no change in an old one")
    func noReport() throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write("old", "kept")
        for name in ["old", "new"] { _ = try ReportTarget(path: folder.path + "/" + name) }
        #expect(readFile(folder.path + "/old", limit: 100) == "kept")
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/new"))
    }

    @Test("A file that cannot be written is an error before anything is measured")
    func unwritable() {
        #expect(throws: SystemFailure("cannot write /nowhere/report: No such file or directory")) {
            _ = try ReportTarget(path: "/nowhere/report")
        }
    }
}

@Suite struct GitCommitTests {
    private let hash = "0123456789abcdef0123456789abcdef01234567"

    @Test("The commit is found from a folder below the checkout, if loose, packed or detached")
    func layouts() throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write(".git/HEAD", "ref: refs/heads/main\n")
        #expect(GitCommit.commit(ofCheckout: folder.path) == nil)
        try folder.write(".git/packed-refs", "# pack-refs with: peeled\n\(hash) refs/heads/main\n")
        #expect(GitCommit.commit(ofCheckout: folder.path) == hash)
        let loose = String(hash.reversed())
        try folder.write(".git/refs/heads/main", loose + "\n")
        #expect(GitCommit.above(folder.path + "/.build/release/imbench") == loose)
        try folder.write(".git/HEAD", hash + "\n")
        #expect(GitCommit.commit(ofCheckout: folder.path) == hash)
    }

    @Test("The .git file of a worktree leads to the shared references")
    func worktree() throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write("tree/.git", "gitdir: \(folder.path)/main/worktrees/tree\n")
        try folder.write("main/worktrees/tree/HEAD", "ref: refs/topic\n")
        try folder.write("main/worktrees/tree/commondir", "../..\n")
        try folder.write("main/refs/topic", hash + "\n")
        #expect(GitCommit.commit(ofCheckout: folder.path + "/tree") == hash)
    }
}

@Suite struct EnvironmentTests {
    @Test("The environment describes this machine")
    func current() {
        let environment = Environment.current()
        #expect(environment.cores >= 1)
        #expect(!environment.processor.isEmpty && !environment.system.isEmpty)
        #expect(environment.swift.hasPrefix("6."))
        #expect(environment.isDebugBuild)
    }

    @Test("The date of a run is the present, in UTC and as ISO 8601")
    func date() throws {
        let text = Environment.current().date
        #expect(text.count == 20 && text.hasSuffix("Z"))
        #expect(abs(try Date(text, strategy: .iso8601).timeIntervalSinceNow) < 60)
    }

    @Test("The name of the processor is read from its line")
    func processorLine() {
        #expect(fieldValue("model name", in: "a : b\nmodel name\t: Fast: One\n") == "Fast: One")
        #expect(fieldValue("model name", in: "model name\nmodel name :\n") == nil)
    }
}

@Suite struct AwakeSpinnersTests {
    @Test("One thread per core spins until it is stopped, and it can be stopped twice")
    func startAndStop() throws {
        #if os(Linux)
        let spinners = try AwakeSpinners()
        #expect(spinners.cores == CoreMask.ofThisThread()?.cores.count)
        spinners.stop()
        spinners.stop()
        #endif
    }
}

@Suite struct ThreadPlacementTests {
    @Test("Both sides are placed on different cores, on one core, or not at all")
    func kinds() {
        #expect(ThreadPlacement.resolve(.apart, cores: [1, 4, 6]).placement == ThreadPlacement(near: 1, far: 6))
        #expect(ThreadPlacement.resolve(.same, cores: [1, 4, 6]).placement == ThreadPlacement(near: 1, far: 1))
        #expect(ThreadPlacement.resolve(.free, cores: [1, 4, 6]).placement == nil)
        for placement in Placement.allCases {
            let resolved = ThreadPlacement.resolve(placement, cores: [1, 4, 6])
            #expect(resolved.placement.kind == placement && resolved.remark == nil)
        }
    }

    @Test("With one core both sides share it, and a sentence reports it")
    func oneCore() {
        let (placement, remark) = ThreadPlacement.resolve(.apart, cores: [5])
        #expect(placement == ThreadPlacement(near: 5, far: 5))
        #expect(remark?.contains("one core only") == true)
        #expect(ThreadPlacement.resolve(.same, cores: [5]).remark == nil)
    }

    @Test(
        "A system that does not place threads is reported, unless --placement is free",
        arguments: [nil, []] as [[Int]?]
    )
    func unplaced(cores: [Int]?) {
        for wanted in [.apart, .same] as [Placement] {
            let (placement, remark) = ThreadPlacement.resolve(wanted, cores: cores)
            #expect(placement == nil && remark?.contains("does not place threads") == true)
        }
        #expect(ThreadPlacement.resolve(.free, cores: cores).remark == nil)
    }
}

@Suite struct ProgressTests {
    @Test("The bar fills from left to right")
    func bar() {
        #expect(Progress.bar(0, of: 4, width: 4) == "░░░░ 0 %")
        #expect(Progress.bar(2, of: 4, width: 4) == "██░░ 50 %")
        #expect(Progress.bar(9, of: 4, width: 4) == "████ 100 %")
    }

    @Test("A redrawing overwrites each line and never erases the screen as a whole")
    func redrawing() {
        #expect(Progress.redrawn(["a", "bc"], over: 0) == "\ra\u{1b}[K\nbc\u{1b}[K")
        #expect(Progress.redrawn(["a", "bc"], over: 2) == "\u{1b}[1A\ra\u{1b}[K\nbc\u{1b}[K")
        // A line that is gone is erased, and the cursor goes back to the end of the last one.
        #expect(Progress.redrawn(["bc"], over: 2) == "\u{1b}[1A\rbc\u{1b}[K\n\u{1b}[K\u{1b}[1A\r\u{1b}[2C")
        #expect(Progress.redrawn([], over: 2) == "\u{1b}[1A\r\u{1b}[K\n\u{1b}[K\u{1b}[1A\r")
    }

    @Test("The time left follows from the steps that are done")
    func timeLeft() {
        #expect(Progress.timeLeft(1, of: 4, after: .seconds(10)) == "30 s")
        #expect(Progress.timeLeft(1, of: 11, after: .seconds(10)) == "1 min 40 s")
        #expect(Progress.timeLeft(4, of: 4, after: .seconds(10)) == "0 s")
        // The first steps say little about the others.
        #expect(Progress.timeLeft(1, of: 20, after: .seconds(10)) == nil)
        #expect(Progress.timeLeft(2, of: 20, after: .seconds(10)) == "1 min 30 s")
        #expect(Progress.timeLeft(1, of: 20, after: .seconds(60)) == "19 min 0 s")
        #expect(Progress.timeLeft(0, of: 4, after: .seconds(10)) == nil)
        #expect(Progress.timeLeft(1, of: 4, after: .milliseconds(900)) == nil)
    }
}

/// A command that ends with a status, or fails.
private struct EndingCommand: RunnableCommand {
    static let command = Command(name: "end", summary: "ends", isInterruptible: false, examples: [])

    var general = GeneralOptions()
    var status: Int32?

    static func ownOptions(_: Vocabulary) -> OptionList<EndingCommand> { OptionList(EndingCommand()) }

    func run() throws -> Int32 {
        guard let status else { throw SystemFailure("no sockets left") }
        return status
    }
}

@Suite struct ProgramTests {
    @Test("The exit status reflects the outcome")
    func statuses() {
        let program = Program(vocabulary: everything)
        #expect(program.run(EndingCommand(status: 0)) == 0)
        #expect(program.run(EndingCommand(status: 99)) == 99)
        #expect(program.run(EndingCommand()) == 1)
        #expect(program.run(["rum"]) == 64)
    }
}
