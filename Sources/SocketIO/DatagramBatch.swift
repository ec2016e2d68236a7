#if os(Linux)
import CSocketIO
#endif

/// Datagrams that one system call has taken from a socket. Taking several at once also tells when there are no more, which
/// else would cost a call of its own after each.
public final class DatagramBatch {
    private static let capacity = 16
    private static let memory = 16 * 1024

    private let slot: Int
    private let count: Int
    private let buffer: UnsafeMutableRawPointer
    private let lengths = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity)
    private let senders = UnsafeMutablePointer<sockaddr_storage>.allocate(capacity: capacity)
    private let senderLengths = UnsafeMutablePointer<socklen_t>.allocate(capacity: capacity)
    /// How many are asked for next: two, which tells whether there are more, until there are.
    private var wanted = 2
    private var filled = 0
    private var next = 0
    /// Whether the last fill left nothing in the socket, as far as it could see.
    public private(set) var wasLast = false

    /// Room for several datagrams of at most `largest` bytes.
    public init(largest: Int) {
        // One byte more than is allowed tells what is too long from what just fits.
        slot = max(512, largest + 1)
        count = max(2, min(Self.capacity, Self.memory / slot))
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

    /// Whether all datagrams of the last fill have been taken.
    public var isEmpty: Bool { next == filled }

    /// Gives the next datagram to `body`, with its sender. The pointer must not outlive the closure.
    public func takeNext<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R? {
        guard next < filled else { return nil }
        defer { next += 1 }
        return body(UnsafeRawBufferPointer(start: buffer + next * slot, count: Int(lengths[next])))
    }

    /// Who sent the datagram that was taken last.
    public var lastSender: SocketAddress? {
        guard next > 0 else { return nil }
        let length = senderLengths[next - 1]
        return (senders + (next - 1)).withMemoryRebound(to: sockaddr.self, capacity: 1) {
            SocketAddress($0, length: length)
        }
    }

    func fill(from raw: Int32) -> IOResult {
        next = 0
        filled = 0
        let received = retryingInterrupts { receive(raw) }
        filled = max(0, received)
        #if os(Linux)
        wasLast = received < wanted
        #endif
        wanted = min(count, wasLast ? 2 : Self.capacity)
        return received == 0 ? .wouldBlock : IOResult(received, "recvmmsg")
    }

    private func receive(_ raw: Int32) -> Int {
        #if os(Linux)
        return Int(csocketio_receive_many(raw, buffer, slot, UInt32(wanted), lengths, senders, senderLengths))
        #else
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let received = senders.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            recvfrom(raw, buffer, slot, 0, $0, &length)
        }
        guard received >= 0 else { return -1 }
        // One at a time: whether there are more shows the next call.
        lengths[0] = received == slot ? 0 : UInt32(received)
        senderLengths[0] = length
        return 1
        #endif
    }
}
