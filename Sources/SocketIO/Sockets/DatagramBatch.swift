import CSocketIO

/// Datagrams that were received from a socket together. The first one is received alone, so that it can be answered
/// before the next receive call. If more are queued, one system call receives many.
package final class DatagramBatch {
    private static let capacity = 16
    /// The memory of a batch, in bytes, unless its creator says otherwise.
    package static let usualMemory = 16 * 1024
    /// How many errors in succession a fill skips.
    private static let mostErrors = 16

    private let slot: Int
    private let count: Int
    private let tellsSenders: Bool
    private let buffer: UnsafeMutableRawPointer
    private let lengths = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity)
    private let senders = UnsafeMutablePointer<sockaddr_storage>.allocate(capacity: capacity)
    private let senderLengths = UnsafeMutablePointer<socklen_t>.allocate(capacity: capacity)
    // Unchecked exclusivity, because no other code runs while these change.
    /// How many to receive in the next fill: one, then two, then as many as fit while there are more.
    @exclusivity(unchecked) private var wanted = 1
    @exclusivity(unchecked) private var filled = 0
    @exclusivity(unchecked) private var next = 0
    /// The error after the datagrams of the last fill. The next fill returns it.
    @exclusivity(unchecked) private var failure: SystemError?
    @exclusivity(unchecked) private var isLast = false
    /// Whether the last fill probably left no datagram in the socket.
    package var wasLast: Bool { isLast }
    /// Whether the last fill requested and received one datagram, so that it is not known whether there are more.
    package private(set) var wasFirst = false

    /// Creates a batch for datagrams of at most `largest` bytes.
    ///
    /// - Parameters:
    ///   - largest: the size of the longest datagram in bytes.
    ///   - tellsSenders: whether the senders are recorded. A connected socket does not need them.
    ///   - memory: the memory for all datagrams in bytes, unless two of them need more.
    package init(largest: Int, tellsSenders: Bool = true, memory: Int = usualMemory) {
        self.tellsSenders = tellsSenders
        // One more byte than allowed distinguishes a datagram that is too long from the longest one.
        slot = max(512, largest + 1)
        count = max(2, min(Self.capacity, memory / slot))
        buffer = .allocate(byteCount: slot * count, alignment: 16)
        senders.initialize(repeating: sockaddr_storage(), count: Self.capacity)
        lengths.initialize(repeating: 0, count: Self.capacity)
        senderLengths.initialize(repeating: 0, count: Self.capacity)
    }

    deinit {
        buffer.deallocate()
        lengths.deallocate()
        senders.deallocate()
        senderLengths.deallocate()
    }

    /// Whether all datagrams of the last fill were taken.
    package var isEmpty: Bool { next == filled }

    /// Calls `body` with the next datagram. The pointer must not outlive the call. Returns `nil` if there is none.
    package func takeNext<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R? {
        guard next < filled else { return nil }
        defer { next += 1 }
        return body(UnsafeRawBufferPointer(start: buffer + next * slot, count: Int(lengths[next])))
    }

    /// The sender of the datagram that was taken last, if senders are recorded.
    package var lastSender: SocketAddress? {
        guard next > 0, tellsSenders else { return nil }
        let length = senderLengths[next - 1]
        return (senders + (next - 1)).withMemoryRebound(to: sockaddr.self, capacity: 1) {
            SocketAddress($0, length: length)
        }
    }

    func fill(from raw: Int32) -> IOResult {
        (next, filled) = (0, 0)
        var result = failure.take().map { .failed($0) } ?? take(from: raw)
        // An error of the path, such as an ICMP message, is reported once, before the datagrams that wait. Its datagram is
        // lost as on a lossy network. Only a refusal says something about the peer.
        var errors = 0
        while case .failed(let error) = result, error.number != ECONNREFUSED, errors < Self.mostErrors {
            errors += 1
            result = take(from: raw)
        }
        if case .bytes(let received) = result { filled = received }
        isLast = filled < wanted && failure == nil
        wasFirst = wanted == 1 && filled == 1
        wanted = isLast ? 1 : wanted == 1 ? 2 : count
        return result
    }

    private func take(from raw: Int32) -> IOResult {
        #if os(Linux)
        if wanted > 2 { return takeMany(raw) }
        #endif
        return takeEach(raw)
    }

    #if os(Linux)
    /// Receives with one system call, which costs more than two simple ones.
    private func takeMany(_ raw: Int32) -> IOResult {
        let (senders, senderLengths) = tellsSenders ? (senders, senderLengths) : (nil, nil)
        let received = retryingInterrupts {
            Int(csocketio_receive_many(raw, buffer, slot, UInt32(wanted), lengths, senders, senderLengths))
        }
        return received == 0 ? .wouldBlock : IOResult(received, "recvmmsg")
    }
    #endif

    /// Receives one by one, until there are no more.
    private func takeEach(_ raw: Int32) -> IOResult {
        for index in 0..<wanted {
            let result = IOResult(retryingInterrupts { takeOne(raw, at: index) }, "recvfrom")
            switch result {
            case .bytes(let received): lengths[index] = received == slot ? 0 : UInt32(received)
            case .end: lengths[index] = 0
            case .wouldBlock, .failed, .insecure:
                guard index > 0 else { return result }
                if case .failed(let error) = result { failure = error }
                return .bytes(index)
            }
        }
        return .bytes(wanted)
    }

    private func takeOne(_ raw: Int32, at index: Int) -> Int {
        guard tellsSenders else { return csocketio_recv(raw, buffer + index * slot, slot) }
        senderLengths[index] = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return (senders + index).withMemoryRebound(to: sockaddr.self, capacity: 1) {
            csocketio_recvfrom(raw, buffer + index * slot, slot, $0, senderLengths + index)
        }
    }
}
