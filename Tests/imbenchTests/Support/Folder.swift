import Foundation

@testable import Reporting
@testable import imbench

/// A new folder for one test.
struct Folder: ~Copyable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/imbench-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    func write(_ name: String, _ text: String) throws {
        let folder = (path + "/" + name as NSString).deletingLastPathComponent
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let target = try ReportTarget(path: path + "/" + name)
        try target.write(text)
    }

    func remove() {
        try? FileManager.default.removeItem(atPath: path)
    }
}
