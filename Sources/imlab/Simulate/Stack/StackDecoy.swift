import Measuring
import SocketIO

/// Another address of the server's name. It accepts connections, as a server behind a broken tunnel of IPv6 does, and then
/// resets them or says nothing.
final class StackDecoy: PollHandler {
    enum Kind: CaseIterable {
        case resets, mute
    }

    private let kind: Kind
    private let listening: ListeningSocket
    private var held: [StreamSocket] = []

    /// Listens. Call this on the loop.
    init(_ kind: Kind, at address: SocketAddress, on loop: EventLoop) throws(SystemError) {
        self.kind = kind
        listening = try ListeningSocket(boundTo: address, on: loop)
        try listening.attach(self)
    }

    func ready(_: SocketIO.Readiness) {
        while let socket = (try? listening.accept()).flatMap(\.self) {
            switch kind {
            case .resets: socket.close(abort: true)
            case .mute: held.append(socket)
            }
        }
    }

    func close() {
        listening.close()
        for socket in held { socket.close(abort: true) }
        held = []
    }
}
