#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The version of imbench.
let version = "0.1.0"

/// Where and with what a run was made. No number means anything without it.
struct Environment: Sendable, Hashable {
    var system = ""
    var processor = ""
    var cores = 1
    var swift = ""
    var isDebugBuild = false
    /// The commit of the checkout that the program lies in, if it lies in one.
    var commit: String?
    /// When the run began, in UTC.
    var date = ""

    /// The environment of this process.
    static func current() -> Environment {
        Environment(
            system: systemName(),
            processor: processorName(),
            cores: max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))),
            swift: compilerVersion,
            isDebugBuild: debugBuild,
            commit: GitCommit.ofThisProgram(),
            date: iso8601(secondsSince1970: Clocks.secondsSince1970())
        )
    }

    private static var debugBuild: Bool {
        #if DEBUG
        true
        #else
        false
        #endif
    }

    // The language tells only whether the compiler is at least of a version.
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

    /// The text in one of the fixed arrays of C.
    private static func text<Characters>(of field: Characters) -> String {
        withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    private static func processorName() -> String {
        #if os(Linux)
        // x86 says "model name"; ARM often has none, and then the machine's model does (device tree).
        if let info = readFile("/proc/cpuinfo", limit: 1 << 20), let name = value(of: "model name", in: info) {
            return name
        }
        if let model = readFile("/sys/firmware/devicetree/base/model", limit: 1024) {
            return String(decoding: model.utf8.filter { $0 >= 0x20 }, as: UTF8.self)
        }
        return "unknown processor"
        #else
        var size = 0
        guard sysctlbyname("machdep.cpu.brand_string", nil, &size, nil, 0) == 0, size > 0, size < 1024 else {
            return "unknown processor"
        }
        var bytes = [UInt8](repeating: 0, count: size)
        guard sysctlbyname("machdep.cpu.brand_string", &bytes, &size, nil, 0) == 0 else { return "unknown processor" }
        return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #endif
    }

    /// The value of the first `key : value` line.
    static func value(of key: String, in text: String) -> String? {
        for line in text.split(separator: "\n") where line.hasPrefix(key) {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            if !value.isEmpty { return String(value) }
        }
        return nil
    }
}
