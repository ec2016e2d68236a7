import Protocols
import SocketIO
import TransportAPI

/// The result of one attempt over a transport whose servers may redirect.
package enum OpeningAnswer: Sendable {
    case connection(CoreConnection)
    /// The server redirects. The error is that of a client that does not follow.
    case elsewhere(Redirection, TransportError)
}

/// A transport that follows redirects within one attempt.
package protocol RedirectedTransport: Transport {
    /// Makes the transport to the target of a redirect, which follows one redirect fewer.
    var follow: @Sendable (Redirection) throws(TransportError) -> Self { get }

    /// Makes the attempt at this endpoint.
    ///
    /// - Parameters:
    ///   - started: When the whole attempt began, in nanoseconds of ``MonotonicClock``.
    ///   - deadline: When it ends.
    nonisolated(nonsending) func open(started: Int64, deadline: Int64) async throws(TransportError) -> OpeningAnswer
}

extension RedirectedTransport {
    package nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        let started = MonotonicClock.now()
        let deadline = Instant(nanoseconds: started).advanced(by: max(.zero, timeout)).nanoseconds
        // This loop ends, because each recipe allows one redirect fewer than the one before.
        var recipe = self
        while true {
            switch try await recipe.open(started: started, deadline: deadline) {
            case .connection(let connection): return connection
            case .elsewhere(let redirection, let answer):
                do throws(TransportError) {
                    recipe = try recipe.follow(redirection)
                } catch {
                    var error = error
                    error.origin = answer.origin
                    throw error
                }
            }
        }
    }
}
