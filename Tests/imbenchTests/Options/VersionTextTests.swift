import SocketIO
import TestSupport
import Testing

@testable import Reporting
@testable import Transports

@Suite("The text of version")
struct VersionTextTests {
    private var environment = Environment(swift: "6.3", commit: String(repeating: "a", count: 40))

    @Test("The program, its build and the libraries are on a line each, and what a missing library costs")
    func lines() {
        let libraries = [
            SystemLibrary(name: "OpenSSL", version: "3.0.19", loss: "no encryption"),
            SystemLibrary(name: "zlib", version: nil, loss: "no compression"),
        ]
        let text = """
            imbench \(version), release build
            commit   \(String(repeating: "a", count: 40))
            Swift    6.3
            OpenSSL  3.0.19
            zlib     not found: no compression

            """
        #expect(VersionText.make("imbench", environment, libraries) == text)
    }

    @Test("A program outside of a checkout has no commit, and no line is longer than 80 columns")
    func nothingFound() {
        var environment = environment
        (environment.commit, environment.isDebugBuild) = (nil, true)
        let missing = SystemLibrary.all.map { SystemLibrary(name: $0.name, version: nil, loss: $0.loss) }
        let lines = VersionText.make("imlab", environment, missing).split(separator: "\n")
        #expect(
            lines.prefix(2) == [
                "imlab \(version), debug build", "commit   unknown, because the program is in no checkout",
            ]
        )
        #expect(
            lines.suffix(3).map { $0.prefix(20) } == [
                "OpenSSL  not found: ", "zlib     not found: ", "SQLite   not found: ",
            ]
        )
        #expect(lines.allSatisfy { $0.count <= 80 })
    }

    @Test("The versions are those of the libraries that this process has loaded")
    func found() {
        let versions = SystemLibrary.all.map(\.version)
        #expect((versions[0] != nil) == hasOpenSSL && (versions[1] != nil) == (ZLib.shared != nil))
        for version in versions.compactMap({ $0 }) { #expect(version.contains(/^\d+\.\d+/)) }
    }

    @Test("A file that is absent, or another library, is no SQLite")
    func absent() {
        #expect(SystemLibrary.sqliteVersion(["libabsent.so.0"]) == nil)
        #expect(SystemLibrary.sqliteVersion(ZLib.names + ["libabsent.so.0"]) == nil)
        #expect(ZLib(names: ["libabsent.so.0"]) == nil && !(OpenSSL.provider(["libabsent.so.0"]) is OpenSSL))
    }
}
