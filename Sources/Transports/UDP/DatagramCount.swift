import SocketIO

/// Counts the datagrams of one direction.
struct DatagramCount {
    /// The number of datagrams.
    private(set) var datagrams: UInt64 = 0
    /// Their bytes, without the headers of UDP and IP.
    private(set) var bytes: UInt64 = 0

    /// Counts a datagram of this many bytes.
    mutating func add(_ size: Int) {
        datagrams += 1
        bytes += UInt64(size)
    }
}

/// Counts received datagrams that are encrypted.
struct EncryptedDatagramCount {
    /// All datagrams.
    private(set) var all = DatagramCount()
    /// The bytes of the datagrams that any host could have sent, because no record of them was decrypted.
    private(set) var foreignBytes: UInt64 = 0
    /// The part of ``foreignBytes`` that the last datagram has, until one of its records is decrypted.
    private var doubtfulBytes: UInt64 = 0

    /// Counts a datagram of the handshake. Signs of life are only asked for after it.
    mutating func addOfHandshake(_ size: Int) {
        all.add(size)
    }

    /// Counts a datagram that was not decrypted yet.
    mutating func add(_ size: Int) {
        all.add(size)
        doubtfulBytes = UInt64(size)
        foreignBytes += doubtfulBytes
    }

    /// Notes that a record of the last datagram was decrypted.
    mutating func decrypted() {
        foreignBytes -= doubtfulBytes
        doubtfulBytes = 0
    }
}

extension SegmentCounts {
    /// The counts of datagrams with their headers of UDP and IP, without options.
    init(sent: DatagramCount, received: DatagramCount, isIPv6: Bool) {
        let (sent, received) = (sent.datagrams, received.datagrams)
        self.init(sent: sent, received: received, headerBytes: (sent + received) * (isIPv6 ? 48 : 28))
    }
}
