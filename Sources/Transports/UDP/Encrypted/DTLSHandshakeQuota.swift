import Protocols

/// Limits how much of a peer's datagrams the engine processes during a handshake. Either side can have a peer that sends
/// without end.
struct DTLSHandshakeQuota {
    /// How many datagrams of one handshake are processed. Further ones are dropped.
    static let datagrams = 512
    /// How many encrypted records may come during a handshake. OpenSSL buffers the others that come before the keys, with
    /// about 17 KiB for each. Further ones are dropped. A client repeats the end of its handshake at most eight times within
    /// the time limit.
    static let earlyRecords = DTLSRecord.EarlyQuota(messages: 8, others: 8)

    private var datagramsLeft = datagrams
    private var earlyLeft = earlyRecords

    /// Returns the part of a datagram that the engine may get, which may be empty.
    mutating func admit(_ datagram: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        guard let record = DTLSRecord(datagram) else { return nothing }
        // No message of the application is plain. Encrypted ones that exceed their quota take none from the handshake.
        if record.isMessage, record.isPlain || earlyLeft.messages == 0 { return nothing }
        guard datagramsLeft > 0 else { return nothing }
        datagramsLeft -= 1
        return DTLSRecord.beginning(of: datagram, encrypted: &earlyLeft)
    }
}
