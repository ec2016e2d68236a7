import Testing

@testable import imbench

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A folder of its own for one test.
struct Folder: ~Copyable {
    let path: String

    init() throws {
        var template = Array("/tmp/imbench-XXXXXX".utf8CString)
        path = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    func write(_ name: String, _ text: String) throws {
        var folder = path
        for part in name.split(separator: "/").dropLast() {
            folder += "/" + part
            mkdir(folder, 0o755)
        }
        let target = try ReportTarget(path: path + "/" + name)
        try target.write(text)
    }

    /// Folders hold a few files in a few layers; what was named is removed from the bottom up.
    func remove(_ names: [String]) {
        for name in names {
            unlink(path + "/" + name)
            rmdir(path + "/" + name)
        }
        rmdir(path)
    }
}
