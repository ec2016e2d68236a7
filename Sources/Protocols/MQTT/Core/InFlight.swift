import TransportAPI

/// The packets that were sent with a packet identifier and are not acknowledged yet: at most as many as the window.
///
/// Identifiers are used in a circle from 1 to 65,535, and never for two packets at a time (MQTT-2.3.1-2). The low bits
/// of its identifier are the slot of an entry. An identifier whose slot is in use is skipped. So the cost of taking and
/// releasing an identifier does not depend on the window.
struct InFlight: Sendable {
    enum Kind: UInt8, Sendable {
        case free
        /// A PUBLISH at QoS 1, which PUBACK answers.
        case publish
        /// A PUBLISH at QoS 2, which PUBREC answers.
        case exactlyOnce
        /// A PUBREL, which PUBCOMP answers.
        case release
        /// A SUBSCRIBE or UNSUBSCRIBE.
        case subscribe, unsubscribe
    }

    private struct Entry: Sendable {
        var id: UInt64 = 0
        var since = Instant.zero
        var packetID: UInt16 = 0
        var kind = Kind.free
    }

    /// The most entries.
    let window: Int
    /// The most entries that are messages at QoS 2.
    let exactlyOnceWindow: Int
    private var exactlyOnceCount = 0
    /// The number of entries.
    private(set) var count = 0
    private var slots: [Entry] = []
    private var last: UInt16 = 0
    /// How long an acknowledgement may take, in nanoseconds; `nil` if there is no limit.
    private let timeout: Int64?
    /// When to look whether the oldest entry is overdue; `nil` if there is no entry, or no limit. Entries that were
    /// acknowledged since do not move it.
    private(set) var deadline: Instant?

    /// Creates an empty table for 1 to 65,535 entries. It allocates no memory until it is used.
    ///
    /// - Parameters:
    ///   - window: The most entries.
    ///   - exactlyOnce: How many of them may be messages at QoS 2; by default all.
    ///   - timeout: How long an acknowledgement may take, in nanoseconds; by default any time. A server has no limit,
    ///     because a client may process messages as slowly as it likes while it is alive (section 3.1.2.10). The
    ///     messages that are queued for it are limited.
    init(window: Int, exactlyOnce: Int = .max, timeout: Int64? = nil) {
        self.window = min(max(window, 1), 65_535)
        exactlyOnceWindow = max(exactlyOnce, 1)
        self.timeout = timeout
    }

    /// Sets the deadline of an acknowledgement whose time counts from `since`, unless one is set.
    mutating func expect(since: Instant) {
        guard deadline == nil, timeout != nil else { return }
        _ = expect(from: since)
    }

    /// Moves the deadline: the time counts from `since`. Returns the new one.
    mutating func expect(from since: Instant) -> Instant {
        guard let timeout else { return Instant(nanoseconds: .max) }
        let due = since.advanced(byNanoseconds: timeout)
        deadline = due
        return due
    }

    mutating func clearDeadline() { deadline = nil }

    /// Takes a free packet identifier. Returns `nil` if the window is full, or, with `beyondWindow`, if no identifier
    /// is free.
    mutating func begin(_ kind: Kind, id: UInt64, now: Instant, beyondWindow: Bool = false) -> UInt16? {
        guard count < (beyondWindow ? 65_535 : window) else { return nil }
        if kind == .exactlyOnce {
            guard exactlyOnceCount < exactlyOnceWindow else { return nil }
            exactlyOnceCount += 1
        }
        if count == slots.count { grow() }
        let mask = slots.count - 1
        // A slot is free, because there are fewer entries than slots. Identifier 0 is skipped. Its slot stays unused
        // only if there are 65,536 slots, which are more than the largest window.
        repeat {
            last &+= 1
            if last == 0 { last = 1 }
        } while slots[Int(last) & mask].kind != .free
        slots[Int(last) & mask] = Entry(id: id, since: now, packetID: last, kind: kind)
        count += 1
        expect(since: now)
        return last
    }

    /// Releases an identifier and returns its id. Returns `nil` if no packet of this kind is in flight under it.
    mutating func end(_ kind: Kind, _ packetID: UInt16) -> UInt64? {
        guard count > 0 else { return nil }
        let slot = Int(packetID) & (slots.count - 1)
        guard slots[slot].kind == kind, slots[slot].packetID == packetID else { return nil }
        slots[slot].kind = .free
        count -= 1
        if count == 0 { deadline = nil }
        if kind == .release { exactlyOnceCount -= 1 }
        return slots[slot].id
    }

    /// The kind of the packet in flight under an identifier.
    func kind(of packetID: UInt16) -> Kind {
        guard count > 0 else { return .free }
        let entry = slots[Int(packetID) & (slots.count - 1)]
        return entry.packetID == packetID ? entry.kind : .free
    }

    /// PUBREC has arrived, so the entry waits for PUBCOMP from now on. Returns `false` if no PUBLISH at QoS 2 is in
    /// flight under this identifier.
    mutating func release(_ packetID: UInt16, now: Instant) -> Bool {
        guard count > 0 else { return false }
        let slot = Int(packetID) & (slots.count - 1)
        guard slots[slot].packetID == packetID, slots[slot].kind == .exactlyOnce || slots[slot].kind == .release else {
            return false
        }
        slots[slot].kind = .release
        slots[slot].since = now
        return true
    }

    /// Gives a packet from an earlier connection the id of the caller that waits for it now. Returns `false` if it is
    /// not in flight.
    mutating func adopt(_ packetID: UInt16, as id: UInt64) -> Bool {
        guard kind(of: packetID) != .free else { return false }
        slots[Int(packetID) & (slots.count - 1)].id = id
        return true
    }

    /// Whether a caller of this connection waits for a packet in flight from an earlier one.
    func isAdopted(_ packetID: UInt16) -> Bool {
        kind(of: packetID) != .free && slots[Int(packetID) & (slots.count - 1)].id != .max
    }

    /// Counts the time of a packet in flight from now on.
    mutating func restart(_ packetID: UInt16, now: Instant) {
        guard kind(of: packetID) != .free else { return }
        slots[Int(packetID) & (slots.count - 1)].since = now
        // The time may not have run yet.
        if let due = deadline, due == Instant(nanoseconds: .max) { deadline = nil }
        expect(since: now)
    }

    /// Adds a packet that an earlier connection has left in flight, under its identifier. Does nothing if the
    /// identifier is in use.
    mutating func resume(_ kind: Kind, _ packetID: UInt16, id: UInt64, now: Instant) {
        guard packetID != 0, kind != .free else { return }
        if slots.isEmpty { grow() }
        while slots[Int(packetID) & (slots.count - 1)].kind != .free {
            guard slots[Int(packetID) & (slots.count - 1)].packetID != packetID else { return }
            grow()
        }
        slots[Int(packetID) & (slots.count - 1)] = Entry(id: id, since: now, packetID: packetID, kind: kind)
        count += 1
        if kind == .exactlyOnce || kind == .release { exactlyOnceCount += 1 }
        // The next identifier follows the newest of these in the circle. An identifier that is used again at once could
        // be confused with the earlier one if the peer answers twice.
        if count == 1 || packetID &- last < 0x8000 { last = packetID }
    }

    /// The time at which the oldest entry was sent. Reads every slot.
    var oldest: Instant? {
        slots.lazy.filter { $0.kind != .free }.map(\.since).min()
    }

    /// Doubles the number of slots. Entries in different slots stay in different slots, because the slot gets one more
    /// bit of the identifier.
    private mutating func grow() {
        let old = slots
        slots = Array(repeating: Entry(), count: max(8, old.count * 2))
        for entry in old where entry.kind != .free { slots[Int(entry.packetID) & (slots.count - 1)] = entry }
    }
}
