import Protocols
import TransportAPI
import Transports

/// Sends every message back to where it came from.
final class Echo: MessageHandler {
    func opened(_: any MessagePeer) {}

    func received(_ payload: Payload, from peer: any MessagePeer) {
        // A client that doesn't read what it asked for is too slow for a server that must not buffer without bound.
        if case .rejected(let error) = peer.sendNow(payload), error.code == .bufferFull {
            peer.endNow(CloseReason(error))
        }
    }

    func ended(_: any MessagePeer) {}
}

/// Sends every message to all clients, its sender included, as a chat room does.
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
