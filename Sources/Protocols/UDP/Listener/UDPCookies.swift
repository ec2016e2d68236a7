import TransportAPI

/// The codes with which a server recognizes its own answers without storing them: SipHash-2-4 with secret keys.
///
/// The key of cookies is used for one slot of time and accepted for one more. So a key that becomes known is of use for
/// a short time only. The names of attempts and sessions must not change, so they have a key of their own.
struct UDPCookies {
    /// The length of a slot. A cookie is valid in the slot in which it was made and in the next one: for two to four
    /// minutes.
    static let slotNanoseconds: Int64 = 120_000_000_000
    /// The longest time for which a cookie is valid.
    static let lifetime = Duration.nanoseconds(2 * slotNanoseconds)

    private enum Purpose: UInt64 {
        /// The values that the codes stand for: cookies, attempts, and the addresses of plain sessions.
        case cookie = 1
        case attempt, address
    }

    private typealias Key = (UInt64, UInt64)

    private let names: Key
    private var current: Key
    private var last: Key
    /// The slot of ``current``.
    private var slot: Int64

    init(_ random: inout RandomSource) {
        names = (random.next(), random.next())
        current = (random.next(), random.next())
        last = (random.next(), random.next())
        slot = 0
    }

    /// Changes the key if its slot is over. Call it before cookies are made or checked. Time never goes back.
    mutating func keepTime(_ now: Instant, _ random: inout RandomSource) {
        let present = now.nanoseconds / Self.slotNanoseconds
        guard present > slot else { return }
        last = present == slot + 1 ? current : (random.next(), random.next())
        current = (random.next(), random.next())
        slot = present
    }

    /// The cookie of this time. A peer that returns it has sent `nonce` from `address` and also receives there.
    func cookie(_ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        code(.cookie, current, nonce, address)
    }

    /// Whether `cookie` was made for this nonce and address and is not too old.
    func isValid(_ cookie: UInt64, _ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> Bool {
        cookie == code(.cookie, current, nonce, address) || cookie == code(.cookie, last, nonce, address)
    }

    /// The name of a client's attempt to get a session.
    func attempt(_ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        code(.attempt, names, nonce, address)
    }

    /// The name of an address's session in plain mode.
    func session(of address: UnsafeRawBufferPointer) -> UInt64 {
        code(.address, names, 0, address)
    }

    private func code(_ purpose: Purpose, _ key: Key, _ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        var hash = SipHash24(key: key)
        hash.combine(purpose.rawValue)
        hash.combine(nonce)
        hash.combine(address)
        return hash.finalize()
    }
}
