import CommandSupport
import SocketIO
import Transports

/// A library of the system that is looked for at run time.
package struct SystemLibrary: Sendable {
    var name: String
    /// The version that was found; `nil` if there is none.
    var version: String?
    /// What does not work without it.
    var loss: String

    /// All of them, as this process finds them.
    package static var all: [SystemLibrary] {
        [
            SystemLibrary(
                name: "OpenSSL",
                version: (OpenSSL.shared as? OpenSSL)?.version,
                loss: "no encryption (wss, tls, mqtts, mqtt+wss, dtls)"
            ),
            SystemLibrary(
                name: "zlib",
                version: ZLib.shared?.version,
                loss: "no compressed WebSocket messages (deflate=on)"
            ),
            SystemLibrary(
                name: "SQLite",
                version: sqliteVersion(sqliteNames),
                loss: "nothing is lost, no part uses it yet"
            ),
        ]
    }

    #if canImport(Darwin)
    private static let sqliteNames = ["libsqlite3.dylib"]
    #else
    private static let sqliteNames = ["libsqlite3.so.0"]
    #endif

    /// The version of the first SQLite of these names.
    static func sqliteVersion(_ names: [String]) -> String? {
        guard let library = names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first,
            let function = dlsym(library, "sqlite3_libversion")
        else { return nil }
        // `const char *sqlite3_libversion(void)` of sqlite3.h.
        return String(cString: unsafeBitCast(function, to: (@convention(c) () -> UnsafePointer<CChar>).self)())
    }
}

/// What `version` prints: the program and its build, and the libraries that it finds at run time.
package enum VersionText {
    package static func make(_ program: String, _ environment: Environment, _ libraries: [SystemLibrary]) -> String {
        let build = environment.isDebugBuild ? "debug build" : "release build"
        let lines =
            [
                ("commit", environment.commit ?? "unknown, because the program is in no checkout"),
                ("Swift", environment.swift),
            ] + libraries.map { ($0.name, $0.version ?? "not found: \($0.loss)") }
        let width = (lines.map(\.0.count).max() ?? 0) + 2
        return "\(program) \(version), \(build)\n" + lines.map { $0.padded(to: width) + $1 + "\n" }.joined()
    }
}
