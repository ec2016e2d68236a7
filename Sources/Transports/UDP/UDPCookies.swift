import TransportAPI

/// The codes by which a server recognises what it said without remembering it: SipHash-2-4 under a secret key.
struct UDPCookies {
    /// A cookie holds for the slot of time in which it was made and the next one: two to four minutes.
    static let slotNanoseconds: Int64 = 120_000_000_000
    /// The longest time for which a cookie holds.
    static let lifetime = Duration.nanoseconds(2 * slotNanoseconds)

    private enum Purpose: UInt64 {
        case cookie = 1
        case attempt, address
    }

    private let key: (UInt64, UInt64)

    init(_ random: inout RandomSource) {
        key = (random.next(), random.next())
    }

    /// What proves, at this time, that who sends `nonce` from `address` also receives there.
    func cookie(_ nonce: UInt64, _ address: UnsafeRawBufferPointer, now: Instant) -> UInt64 {
        code(.cookie, now.nanoseconds / Self.slotNanoseconds, nonce, address)
    }

    /// Whether `cookie` was made for this nonce and address, not too long ago.
    func isValid(_ cookie: UInt64, _ nonce: UInt64, _ address: UnsafeRawBufferPointer, now: Instant) -> Bool {
        let slot = now.nanoseconds / Self.slotNanoseconds
        return cookie == code(.cookie, slot, nonce, address) || cookie == code(.cookie, slot &- 1, nonce, address)
    }

    /// The name of one client's attempt to get a session.
    func attempt(_ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        code(.attempt, 0, nonce, address)
    }

    /// The name of the session of an address, in plain mode.
    func session(of address: UnsafeRawBufferPointer) -> UInt64 {
        code(.address, 0, 0, address)
    }

    private func code(_ purpose: Purpose, _ slot: Int64, _ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        var hash = SipHash24(key: key)
        hash.combine(purpose.rawValue)
        hash.combine(UInt64(bitPattern: slot))
        hash.combine(nonce)
        hash.combine(address)
        return hash.finalize()
    }
}
