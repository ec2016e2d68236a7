import TransportAPI

/// The codes by which a server recognises what it said without remembering it: SipHash-2-4 under secret keys.
///
/// Cookies are made with a key that lives for one slot of time and is remembered for one more, so that who finds a key out
/// gains nothing by it for long. The names of attempts and sessions must stay the same and have a key of their own.
struct UDPCookies {
    /// A cookie holds for the slot of time in which it was made and the next one: two to four minutes.
    static let slotNanoseconds: Int64 = 120_000_000_000
    /// The longest time for which a cookie holds.
    static let lifetime = Duration.nanoseconds(2 * slotNanoseconds)

    private enum Purpose: UInt64 {
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

    /// Changes the key if its slot is over. To be called before cookies are made or checked; time never goes back.
    mutating func keepTime(_ now: Instant, _ random: inout RandomSource) {
        let present = now.nanoseconds / Self.slotNanoseconds
        guard present > slot else { return }
        last = present == slot + 1 ? current : (random.next(), random.next())
        current = (random.next(), random.next())
        slot = present
    }

    /// What proves, at this time, that who sends `nonce` from `address` also receives there.
    func cookie(_ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        code(.cookie, current, nonce, address)
    }

    /// Whether `cookie` was made for this nonce and address, not too long ago.
    func isValid(_ cookie: UInt64, _ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> Bool {
        cookie == code(.cookie, current, nonce, address) || cookie == code(.cookie, last, nonce, address)
    }

    /// The name of one client's attempt to get a session.
    func attempt(_ nonce: UInt64, _ address: UnsafeRawBufferPointer) -> UInt64 {
        code(.attempt, names, nonce, address)
    }

    /// The name of the session of an address, in plain mode.
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
