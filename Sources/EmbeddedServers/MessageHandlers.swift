import Protocols
import TransportAPI
import Transports

/// Sends every message back to its sender.
final class Echo: MessageHandler {
    func opened(_: any MessagePeer) {}

    func received(_ payload: Payload, from peer: any MessagePeer) {
        // A client that does not read its answers is too slow, because a server must not buffer without limit.
        if case .rejected(let error) = peer.sendNow(payload), error.code == .bufferFull {
            peer.endNow(CloseReason(error))
        }
    }

    func ended(_: any MessagePeer) {}
}

/// Sends every message to all clients, including its sender, as a chat room does.
final class FanOut: MessageHandler {
    private var peers: [UInt64: any MessagePeer] = [:]

    func opened(_ peer: any MessagePeer) {
        peers[peer.number] = peer
    }

    func received(_ payload: Payload, from sender: any MessagePeer) {
        if peers.count >= 8 { sender.noteMuchWork() }
        for peer in peers.values {
            if case .rejected(let error) = peer.sendNow(payload), error.code == .bufferFull {
                peer.endNow(CloseReason(error))
            }
        }
    }

    func ended(_ peer: any MessagePeer) {
        peers[peer.number] = nil
    }
}
