import CommandSupport
import Foundation

/// The version of imbench.
package let version = "0.1.0"

/// The machine and the build of a run. No number has a meaning without it.
package struct Environment: Sendable, Hashable {
    package var system = ""
    package var processor = ""
    package var cores = 1
    package var swift = ""
    package var isDebugBuild = false
    /// The commit of the checkout that contains the program, if there is one.
    package var commit: String?
    /// The start of the run, in UTC.
    package var date = ""

    /// The environment of this process.
    package static func current() -> Environment {
        Environment(
            system: systemName(),
            processor: processorName(),
            cores: max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))),
            swift: compilerVersion,
            isDebugBuild: debugBuild,
            commit: Bundle.main.executablePath.flatMap(GitCommit.above),
            date: Date().ISO8601Format()
        )
    }

    private static var debugBuild: Bool {
        #if DEBUG
        true
        #else
        false
        #endif
    }

    // The language can test only whether the compiler is at least of a version.
    private static var compilerVersion: String {
        #if compiler(>=6.4)
        "6.4 or later"
        #elseif compiler(>=6.3)
        "6.3"
        #elseif compiler(>=6.2)
        "6.2"
        #else
        "6.1"
        #endif
    }

    private static func systemName() -> String {
        var names = utsname()
        guard uname(&names) == 0 else { return "unknown" }
        return [text(of: names.sysname), text(of: names.release), text(of: names.machine)].joined(separator: " ")
    }

    /// The text in a fixed array of C.
    private static func text<Characters>(of field: Characters) -> String {
        withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    private static func processorName() -> String {
        #if os(Linux)
        // x86 has "model name". ARM often has none, but the device tree has the machine's model.
        if let info = readFile("/proc/cpuinfo", limit: 1 << 20), let name = fieldValue("model name", in: info) {
            return name
        }
        if let model = readFile("/sys/firmware/devicetree/base/model", limit: 1024) {
            return String(decoding: model.utf8.filter { $0 >= 0x20 }, as: UTF8.self)
        }
        return "unknown processor"
        #else
        var size = 1024
        var bytes = [UInt8](repeating: 0, count: size)
        guard sysctlbyname("machdep.cpu.brand_string", &bytes, &size, nil, 0) == 0 else { return "unknown processor" }
        return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #endif
    }
}

/// Finds the commit of a checkout in its files (gitrepository-layout(5)), without running git.
package enum GitCommit {
    /// The commit of the nearest checkout in a folder above `path`.
    static func above(_ path: String) -> String? {
        var folder = Substring(path)
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            if let commit = commit(ofCheckout: String(folder)) { return commit }
        }
        return nil
    }

    /// The commit of the checkout whose top is `folder`; `nil` if it is no checkout.
    static func commit(ofCheckout folder: String) -> String? {
        var git = folder + "/.git"
        // In a linked worktree .git is a file that names the folder.
        if let pointer = readFile(git, limit: 4096), let target = value(of: "gitdir: ", in: pointer) {
            git = target.hasPrefix("/") ? target : folder + "/" + target
        }
        guard let head = readFile(git + "/HEAD", limit: 4096) else { return nil }
        guard let reference = value(of: "ref: ", in: head) else { return hash(head) }
        guard !reference.contains("..") else { return nil }

        var shared = git
        if let common = readFile(git + "/commondir", limit: 4096).flatMap({ value(of: "", in: $0) }) {
            shared = common.hasPrefix("/") ? common : git + "/" + common
        }
        if let text = readFile(shared + "/" + reference, limit: 4096) { return hash(text) }
        let packed = readFile(shared + "/packed-refs", limit: 1 << 22) ?? ""
        let line = packed.split(separator: "\n").first { $0.hasSuffix(" " + reference) }
        return line.flatMap { hash(String($0)) }
    }

    /// The text after `prefix` on the first line.
    private static func value(of prefix: String, in text: String) -> String? {
        guard let line = text.split(separator: "\n").first, line.hasPrefix(prefix) else { return nil }
        return String(line.dropFirst(prefix.count))
    }

    /// The hash at the start of a text: 40 digits of SHA-1 or 64 of SHA-256.
    private static func hash(_ text: String) -> String? {
        let digits = text.prefix { $0.isHexDigit }
        return digits.count == 40 || digits.count == 64 ? String(digits) : nil
    }
}
