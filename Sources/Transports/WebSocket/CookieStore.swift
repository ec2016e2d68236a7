import Protocols
import SocketIO
import TransportAPI

/// The cookies of one transport's handshakes. A supervisor keeps the transport of an endpoint as long as its preparation
/// returns the same endpoint. So other credentials begin with an empty store.
final class CookieStore: Sendable {
    private let jar = Locked(CookieJar())

    /// Returns the cookies for a request; `nil` if there are none.
    func header(for origin: CookieOrigin, on loop: EventLoop) -> CookieHeader? {
        jar.withLock { $0.header(for: origin, at: Instant(nanoseconds: loop.now)) }
    }

    /// Keeps cookies that a server has set.
    func keep(_ cookies: [SetCookie], from origin: CookieOrigin, on loop: EventLoop) {
        guard !cookies.isEmpty else { return }
        jar.withLock { $0.keep(cookies, from: origin, at: Instant(nanoseconds: loop.now)) }
    }

    /// Returns a core that sends the cookies for a request.
    func adding(to core: any PackageCore, for origin: CookieOrigin, on loop: EventLoop) -> any PackageCore {
        var core = core
        core.cookies = header(for: origin, on: loop)
        return core
    }

    /// Keeps the cookies that a server has set in a handshake. Drops all former ones if it has refused the credentials.
    ///
    /// - Parameter refusal: The error of a handshake that has failed.
    func keep(
        _ core: any PackageCore,
        from origin: CookieOrigin,
        on loop: EventLoop,
        refusal: TransportError? = nil
    ) {
        switch refusal?.code {
        case .authenticationFailed, .forbidden: jar.withLock { $0.removeAll() }
        // The cookies themselves may be the reason.
        case .handshakeFailed where refusal?.detail == 400 || refusal?.detail == 431: jar.withLock { $0.removeAll() }
        default: break
        }
        keep(core.receivedCookies, from: origin, on: loop)
    }
}
