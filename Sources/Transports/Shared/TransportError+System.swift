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
        self.init(code, phase, error.description, detail: Int(error.number))
    }

    /// Creates the error for a connection that could not be opened.
    package init(_ error: ConnectError) {
        switch error {
        case .nameNotFound(let sentence): self.init(.nameNotFound, .resolve, sentence)
        case .resolverFailed(let sentence): self.init(.resolverFailed, .resolve, sentence)
        case .system(let error): self.init(error, .connect)
        case .timedOut(let resolving):
            self.init(.timedOut, resolving ? .resolve : .connect, "there was no answer in time")
        case .cancelled: self = .cancelled(.connect)
        }
    }

    /// Returns the error for a cancelled task.
    static func cancelled(_ phase: Phase) -> TransportError {
        TransportError(.cancelled, phase, "the task was cancelled")
    }
}
