import Protocols
import SocketIO
import TransportAPI

/// The requests of clients that have no session yet. They wait until the datagrams of sessions are served. All memory
/// is reserved with the first request.
struct WaitingRequests {
    /// The maximum number of waiting requests. Further ones are dropped, and the clients repeat them.
    static let limit = 512

    private var bytes: [UInt8] = []
    private var senders: [SocketAddress] = []
    private var first = 0
    private(set) var count = 0

    /// Adds a request of ``Datagram/requestSize`` bytes. Returns `false` if there is no room.
    mutating func append(_ datagram: borrowing ByteBuffer, from sender: SocketAddress) -> Bool {
        guard count < Self.limit, datagram.count == Datagram.requestSize else { return false }
        if bytes.isEmpty {
            bytes = [UInt8](repeating: 0, count: Self.limit * Datagram.requestSize)
            senders = [SocketAddress](repeating: sender, count: Self.limit)
        }
        let place = (first + count) % Self.limit
        let start = place * Datagram.requestSize
        datagram.withUnsafeReadableBytes { source in
            bytes.withUnsafeMutableBytes { target in
                UnsafeMutableRawBufferPointer(rebasing: target[start..<start + source.count]).copyMemory(from: source)
            }
        }
        senders[place] = sender
        count += 1
        return true
    }

    /// Puts the request that has waited longest into `input`, which must be empty. Returns its sender.
    mutating func takeFirst(into input: inout ByteBuffer) -> SocketAddress? {
        guard count > 0 else { return nil }
        let start = first * Datagram.requestSize
        bytes.withUnsafeBytes {
            input.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[start..<start + Datagram.requestSize]))
        }
        let sender = senders[first]
        first = (first + 1) % Self.limit
        count -= 1
        return sender
    }
}
