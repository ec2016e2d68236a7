import TransportAPI

/// The address of a request, as far as it decides about cookies.
package struct CookieOrigin: Sendable, Hashable {
    /// The host in lower case, without a dot at its end.
    let host: String
    /// The path of the request, without its query.
    @Secret private(set) var path: String
    /// Whether the request is encrypted.
    let isSecure: Bool

    /// Creates the origin of a request from its parts. An empty path counts as a slash.
    package init(host: String, path: String, isSecure: Bool) {
        self.host = (host.hasSuffix(".") ? host.dropLast() : host[...]).lowercased()
        self.path = path.isEmpty ? "/" : path
        self.isSecure = isSecure
    }

    /// The folder of the request, which is the path of cookies without one (RFC 6265, section 5.1.4).
    var folder: String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    /// Whether a cookie of this path belongs to the request (RFC 6265, section 5.1.4).
    func matches(path folder: String) -> Bool {
        guard path.utf8.starts(with: folder.utf8) else { return false }
        let slash = UInt8(ascii: "/")
        guard folder.utf8.last != slash, let next = path.utf8.dropFirst(folder.utf8.count).first else { return true }
        return next == slash
    }
}

/// The cookies that servers have set in handshakes (RFC 6265), in memory. Each goes back only to the host that has set it,
/// on any port (section 8.5). Values are never printed.
package struct CookieJar: Sendable {
    /// The largest number of cookies. Beyond it, the one that was set first is dropped.
    package static let maximumCount = 20
    /// The largest size of all names, values and paths together, in bytes. Beyond it, the same happens.
    package static let maximumBytes = 8 << 10

    private struct Cookie: Sendable {
        let host: String
        // The path of a request can be as secret as a token.
        @Secret var path: String
        let name: String
        @Secret var value: String
        let isSecure: Bool
        /// `nil` as long as the jar.
        let end: Instant?

        var bytes: Int { path.utf8.count + name.utf8.count + value.utf8.count }
    }

    /// The cookies, in the order in which they were set first.
    private var cookies: [Cookie] = []

    /// Creates an empty jar.
    package init() {}

    /// Keeps cookies that a server has set in its answer to a request. A cookie of the same name and path is replaced.
    package mutating func keep(_ received: [SetCookie], from origin: CookieOrigin, at now: Instant) {
        for cookie in received {
            let path = cookie.path ?? origin.folder
            let index = cookies.firstIndex {
                $0.host == origin.host && $0.path == path && $0.name == cookie.name
            }
            // Without encryption, any machine on the path could set or replace it (RFC 6265bis, section 5.7).
            if !origin.isSecure, cookie.isSecure || index.map({ cookies[$0].isSecure }) ?? false { continue }
            if let lifetime = cookie.lifetime, lifetime <= .zero {
                if let index { cookies.remove(at: index) }
                continue
            }
            let kept = Cookie(
                host: origin.host,
                path: path,
                name: cookie.name,
                value: cookie.value,
                isSecure: cookie.isSecure,
                end: cookie.lifetime.map { now.advanced(by: $0) }
            )
            if let index { cookies[index] = kept } else { cookies.append(kept) }
            dropExpired(at: now)
            while cookies.count > Self.maximumCount || bytes > Self.maximumBytes { cookies.removeFirst() }
        }
    }

    private var bytes: Int { cookies.reduce(0) { $0 + $1.bytes } }

    private mutating func dropExpired(at now: Instant) {
        cookies.removeAll { $0.end.map { $0 <= now } ?? false }
    }

    /// Returns the value of the Cookie header for a request (RFC 6265, section 5.4); `nil` if there are no cookies for it.
    package mutating func header(for origin: CookieOrigin, at now: Instant) -> CookieHeader? {
        dropExpired(at: now)
        let matching = cookies.filter {
            $0.host == origin.host && origin.matches(path: $0.path) && (origin.isSecure || !$0.isSecure)
        }
        guard !matching.isEmpty else { return nil }
        // Longer paths come first. Cookies of equally long paths stay in the order in which they were set.
        let sorted = matching.enumerated().sorted { left, right in
            let (first, second) = (left.element.path.utf8.count, right.element.path.utf8.count)
            return first == second ? left.offset < right.offset : first > second
        }
        return CookieHeader(value: sorted.map { "\($0.element.name)=\($0.element.value)" }.joined(separator: "; "))
    }

    /// Drops all cookies.
    package mutating func removeAll() {
        cookies = []
    }
}
