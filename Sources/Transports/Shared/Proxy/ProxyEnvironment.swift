import SocketIO
import TransportAPI

/// The variables of the environment that name proxies. Only `proxy=environment` reads them.
///
/// - Encrypted transports read `https_proxy`, then `all_proxy`. Plain ones read `all_proxy` only: `http_proxy` is for web
///   pages, and proxies for these seldom open tunnels to other ports.
/// - `no_proxy` lists the servers that are connected to directly; see ``ProxyExceptions``.
/// - As with curl, the name in lower case has precedence over that in upper case, an empty variable counts as missing,
///   a value without a scheme is an HTTP proxy, and `socks5h` is another name of `socks5`, because here the proxy resolves
///   names in any case.
struct ProxyEnvironment: Sendable {
    /// Returns the value of a variable; `nil` if it is not set.
    let value: @Sendable (String) -> String?

    /// The environment of this process.
    static let process = ProxyEnvironment { name in getenv(name).map { String(cString: $0) } }

    /// Returns the proxy for connections to a server; `nil` to connect directly.
    ///
    /// - Throws: `.invalidConfiguration` that names the variable and quotes nothing of it.
    func proxy(to host: String, port: UInt16, isEncrypted: Bool) throws(TransportError) -> Proxy? {
        let names = isEncrypted ? ["https_proxy", "all_proxy"] : ["all_proxy"]
        guard let variable = names.lazy.compactMap(first).first else { return nil }
        if let exceptions = first("no_proxy"), ProxyExceptions(exceptions.value).contains(host, port: port) {
            return nil
        }
        return try Proxy(Self.url(variable.value), key: variable.name)
    }

    private static func url(_ value: String) -> String {
        guard let delimiter = value.utf8.firstRange(of: "://".utf8) else { return "http://\(value)" }
        let isRemote = value[..<delimiter.lowerBound].lowercased() == "socks5h"
        return isRemote ? "socks5\(value[delimiter.lowerBound...])" : value
    }

    /// Returns the variable of this name, in lower or upper case, that is set and not empty.
    private func first(_ name: String) -> (name: String, value: String)? {
        for name in [name, name.uppercased()] {
            if let value = value(name), !value.isEmpty { return (name, value) }
        }
        return nil
    }
}
