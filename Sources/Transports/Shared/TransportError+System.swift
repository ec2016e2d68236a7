import Protocols
import SocketIO
import TransportAPI

// Maps the operating system's errors to TransportError. Tested row by row.

extension TransportError {
    /// Creates the error for an errno.
    package init(_ error: SystemError, _ phase: Phase) {
        let code: Code =
            switch error.number {
            case ECONNREFUSED: .refused
            case ECONNRESET, EPIPE, ENOTCONN: .connectionReset
            case ECONNABORTED: .connectionLost
            case ETIMEDOUT: phase == .open ? .connectionLost : .timedOut
            case EHOSTUNREACH, ENETUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT: .unreachable
            case ENETDOWN: .networkDown
            case EADDRINUSE: .addressInUse
            case EACCES, EPERM: .permissionDenied
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: .resourcesExhausted
            case EMSGSIZE: .messageTooLarge
            default: .systemError
            }
        self.init(code, phase, "\(error.call): \(error.sentence)", detail: Int(error.number))
    }

    /// Creates the error for an errno of a connection to `address`. The error of a refused connection names the
    /// address.
    init(_ error: SystemError, _ phase: Phase, at address: String?, isDatagram: Bool = false) {
        self.init(error, phase)
        guard code == .refused, let address else { return }
        self.reason = "connection refused at \(address): nothing listens " + (isDatagram ? "on this UDP port" : "there")
    }

    /// Creates the error for a connection that could not be opened.
    ///
    /// - Parameters:
    ///   - error: The error of the attempt.
    ///   - address: The host and the port, for the sentence of the error.
    package init(_ error: ConnectError, at address: String? = nil) {
        switch error {
        case .nameNotFound(let sentence): self.init(.nameNotFound, .resolve, sentence)
        case .resolverFailed(let sentence): self.init(.resolverFailed, .resolve, sentence)
        case .system(let error): self.init(error, .connect, at: address)
        case .timedOut(let resolving):
            self.init(
                .timedOut,
                resolving ? .resolve : .connect,
                address.map { "\($0) did not answer in time" } ?? "there was no answer in time"
            )
        case .cancelled: self = .cancelled(.connect)
        }
    }
}
