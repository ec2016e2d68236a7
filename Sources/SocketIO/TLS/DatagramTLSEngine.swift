import Primitives

/// DTLS of one association (RFC 6347), as a state machine without I/O: datagrams in, datagrams out. It belongs to one
/// loop.
///
/// Call ``handshake(_:_:)`` until it is done: at a client first without a datagram, at a server first with the
/// ClientHello whose cookie was checked. Then call ``read(_:into:_:)`` with each datagram. After each call, send the
/// datagrams of the output, and set a timer for ``timeout``.
package protocol DatagramTLSEngine: AnyObject {
    /// The result of the handshake, once it is complete.
    var description: TLSDescription? { get }

    /// Continues the handshake with a received datagram.
    func handshake(_ datagram: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep
    /// Decrypts a received datagram, and copies the content of its first record. Further records are read by calls
    /// without a datagram, until ``TLSStep/End/needsInput``. Broken and repeated records are dropped. The end of the
    /// peer is ``TLSStep/End/ended``.
    func read(
        _ datagram: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep
    /// Encrypts a message of at most ``DTLS/largestRecord`` bytes as one datagram, which is at most ``DTLS/overhead``
    /// bytes longer.
    func write(_ message: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep
    /// Notifies the peer that this side has ended (close_notify).
    func end(_ output: inout TLSOutput)

    /// The time until ``timeoutReached(_:)`` must be called, in nanoseconds; `nil` if nothing is to be repeated.
    var timeout: Int64? { get }
    /// Repeats the datagrams of the handshake that were not answered.
    func timeoutReached(_ output: inout TLSOutput) -> TLSStep
    /// Splits the handshake into small datagrams from now on, because the system has refused one as too long.
    func shrink()
}

/// The sizes of DTLS 1.2, in bytes.
package enum DTLS {
    /// How much longer an encrypted datagram is: a header of 13 bytes, an explicit nonce of 8 and a tag of 16 with
    /// AES-GCM (RFC 6347, section 4.1; RFC 5288, section 3). ChaCha20-Poly1305 has no explicit nonce.
    package static let overhead = 37
    /// The largest content of a record (RFC 6347, section 4.1).
    package static let largestRecord = 16_384
    /// The largest datagram of a handshake, the size of RFC 9000, section 14.1.
    package static let handshakeSize = 1200
    /// The largest datagram of a handshake after several repetitions. It fits into the 576 bytes that every IPv4 host must
    /// accept (RFC 791, section 3.1).
    package static let smallestHandshakeSize = 548
    /// How many repetitions have no answer before the datagrams become smaller.
    package static let timeoutsBeforeSmaller = 3
    /// The largest datagram that is received during a handshake. Other implementations fill 4096 bytes on this machine.
    package static let largestHandshakeDatagram = 4608
}

extension TLSOutput {
    /// Calls `body` with each datagram that an engine of datagrams has written.
    package func forEachDatagram(_ body: (UnsafeRawBufferPointer) -> Void) {
        let written = UnsafeRawBufferPointer(rebasing: memory[..<count])
        var start = 0
        while start + 4 <= count {
            let end = start + 4 + Int(written.loadUnaligned(fromByteOffset: start, as: UInt32.self))
            guard end <= count else { return }
            body(UnsafeRawBufferPointer(rebasing: written[(start + 4)..<end]))
            start = end
        }
    }

    /// Adds a datagram that an engine sends. Without room for it, it is lost, as on the network.
    package mutating func addDatagram(_ datagram: [UInt8]) {
        let size = 4 + datagram.count
        guard memory.count - count >= size else { return }
        let target = UnsafeMutableRawBufferPointer(rebasing: memory[count..<count + size])
        target.storeBytes(of: UInt32(truncatingIfNeeded: datagram.count), as: UInt32.self)
        UnsafeMutableRawBufferPointer(rebasing: target[4...]).copyBytes(from: datagram)
        count += size
    }
}
