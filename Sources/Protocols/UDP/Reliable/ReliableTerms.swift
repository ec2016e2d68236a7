import TransportAPI

/// Whether UDP carries messages reliably, and in which order.
package enum UDPReliability: String, Sendable, Hashable, CaseIterable {
    /// The network can lose or reorder messages. Duplicates are dropped.
    case off
    /// Each message arrives once, in the order of sending.
    case ordered
    /// Each message arrives once, as soon as all of it has arrived.
    case unordered
}

/// The terms that one side of a reliable session announces in the handshake.
package struct ReliableTerms: Sendable, Hashable {
    /// The cost of a message in the receiver's window in addition to its bytes.
    static let messageCost = 256
    /// The highest limit for the size of messages, in bytes.
    package static let largestLimit = 16 << 20
    /// How far the number of a message may be ahead of the oldest message that has not arrived.
    static let numberWindow: UInt64 = 16_384

    var isOrdered: Bool
    /// The largest message that this side accepts, in bytes.
    var maximumMessageSize: Int
    /// The credit that the peer has at first, as costs of its messages.
    var window: Int

    /// Creates the terms of a side with this limit. The window has room for two of the largest messages, and at least
    /// 256 KiB.
    init(isOrdered: Bool, maximumMessageSize: Int) {
        self.isOrdered = isOrdered
        self.maximumMessageSize = maximumMessageSize
        window = max(2 * Self.cost(maximumMessageSize), 256 << 10)
    }

    /// The cost of a message of `size` bytes in a window.
    static func cost(_ size: Int) -> Int { size + messageCost }

    // MARK: On the wire: mode, limit, window

    static let wireSize = 9

    /// The mode of a confirm without the reliable mode.
    static let none: UInt8 = 0

    /// Reads the terms at `offset`. Returns `nil` if there are none, or if they are contradictory.
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
