import TransportAPI

/// Whether UDP carries messages reliably.
package enum UDPReliability: String, Sendable, Hashable, CaseIterable {
    /// Messages may be lost, doubled or reordered by the network; doubles are dropped.
    case off
    /// Each message arrives once, in the order of sending.
    case ordered
    /// Each message arrives once, as soon as all of it is there.
    case unordered
}

/// What one side of a reliable session promises the other in the handshake.
package struct ReliableTerms: Sendable, Hashable {
    /// What a message takes of the receiver's window besides its bytes: its administration, in bytes.
    static let messageCost = 256
    /// The largest limit of messages, in bytes.
    package static let largestLimit = 16 << 20
    /// How far a message's number may be ahead of the oldest message that has not arrived.
    static let numberWindow: UInt64 = 16_384

    var isOrdered: Bool
    /// The largest message that this side takes, in bytes.
    var maximumMessageSize: Int
    /// How much the peer may send before it gets further credit: the costs of its messages.
    var window: Int

    /// What a side with this limit of messages promises: a window of two of the largest, at least 256 KiB.
    init(isOrdered: Bool, maximumMessageSize: Int) {
        self.isOrdered = isOrdered
        self.maximumMessageSize = maximumMessageSize
        window = max(2 * Self.cost(maximumMessageSize), 256 << 10)
    }

    /// What a message of so many bytes takes of a window.
    static func cost(_ size: Int) -> Int { size + messageCost }

    // MARK: On the wire: mode, limit, window

    static let wireSize = 9

    /// The mode that stands for none.
    static let none: UInt8 = 0

    /// Reads the terms at `offset`; `nil` if there are none, or they contradict themselves.
    init?(_ datagram: borrowing ByteBuffer, at offset: Int) {
        guard let mode = datagram.byte(at: offset), mode == 1 || mode == 2,
            let limit = datagram.integer(at: offset + 1, as: UInt32.self),
            let window = datagram.integer(at: offset + 5, as: UInt32.self),
            limit >= 1, limit <= Self.largestLimit, Int(window) >= Self.cost(Int(limit))
        else { return nil }
        isOrdered = mode == 1
        maximumMessageSize = Int(limit)
        self.window = Int(window)
    }

    func append(to output: inout ByteBuffer) {
        output.append(isOrdered ? 1 : 2)
        output.append(integer: UInt32(truncatingIfNeeded: maximumMessageSize))
        output.append(integer: UInt32(truncatingIfNeeded: window))
    }
}
