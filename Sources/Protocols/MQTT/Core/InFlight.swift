import TransportAPI

/// What was sent with a packet identifier and is not acknowledged yet: at most a window full.
///
/// Identifiers are given out in a circle from 1 to 65,535 and never twice at a time (MQTT-2.3.1-2). An entry lies in the
/// slot that the low bits of its identifier name, and an identifier whose slot is taken is passed over; so giving out and
/// taking back cost the same however large the window is.
struct InFlight: Sendable {
    enum Kind: UInt8, Sendable {
        case free
        /// PUBLISH at QoS 1, to be answered by PUBACK.
        case publish
        /// PUBLISH at QoS 2, to be answered by PUBREC.
        case exactlyOnce
        /// PUBREL, to be answered by PUBCOMP.
        case release
        case subscribe, unsubscribe
    }

    private struct Entry: Sendable {
        var id: UInt64 = 0
        var since = Instant.zero
        var packetID: UInt16 = 0
        var kind = Kind.free
    }

    /// How many entries there may be.
    let window: Int
    /// How many of them may be messages of QoS 2.
    let exactlyOnceWindow: Int
    private var exactlyOnceCount = 0
    /// How many there are.
    private(set) var count = 0
    private var slots: [Entry] = []
    private var last: UInt16 = 0

    /// An empty table for 1 to 65,535 entries, of which as many as said may be messages of QoS 2; all, by default. It
    /// owns no memory until it is used.
    init(window: Int, exactlyOnce: Int = .max) {
        self.window = min(max(window, 1), 65_535)
        exactlyOnceWindow = max(exactlyOnce, 1)
    }

    /// Gives out a packet identifier; `nil` if the window is full, or, with `beyondWindow`, if no identifier is free.
    mutating func begin(_ kind: Kind, id: UInt64, now: Instant, beyondWindow: Bool = false) -> UInt16? {
        guard count < (beyondWindow ? 65_535 : window) else { return nil }
        if kind == .exactlyOnce {
            guard exactlyOnceCount < exactlyOnceWindow else { return nil }
            exactlyOnceCount += 1
        }
        if count == slots.count { grow() }
        let mask = slots.count - 1
        // There is a free slot: fewer entries than slots, and identifier 0 is only passed over where 65,536 slots are
        // more than the largest window.
        repeat {
            last &+= 1
            if last == 0 { last = 1 }
        } while slots[Int(last) & mask].kind != .free
        slots[Int(last) & mask] = Entry(id: id, since: now, packetID: last, kind: kind)
        count += 1
        return last
    }

    /// Takes an identifier back and tells the id behind it; `nil` if nothing of this kind is in flight under it.
    mutating func end(_ kind: Kind, _ packetID: UInt16) -> UInt64? {
        guard count > 0 else { return nil }
        let slot = Int(packetID) & (slots.count - 1)
        guard slots[slot].kind == kind, slots[slot].packetID == packetID else { return nil }
        slots[slot].kind = .free
        count -= 1
        if kind == .release { exactlyOnceCount -= 1 }
        return slots[slot].id
    }

    /// What is in flight under an identifier.
    func kind(of packetID: UInt16) -> Kind {
        guard count > 0 else { return .free }
        let entry = slots[Int(packetID) & (slots.count - 1)]
        return entry.packetID == packetID ? entry.kind : .free
    }

    /// PUBREC has come: from now on PUBCOMP is waited for. `false` if no PUBLISH at QoS 2 is in flight under this identifier.
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

    /// Gives what was taken up from a former connection the id of a caller who waits for it now; `false` if nothing is
    /// in flight.
    mutating func adopt(_ packetID: UInt16, as id: UInt64) -> Bool {
        guard kind(of: packetID) != .free else { return false }
        slots[Int(packetID) & (slots.count - 1)].id = id
        return true
    }

    /// Takes up what a former connection has left in flight, under its identifier. Does nothing if that is in use.
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
        // What is given out next follows the newest of them, in the circle of identifiers: one that is used again at once
        // could be taken for the one before by a peer that answers twice.
        if count == 1 || packetID &- last < 0x8000 { last = packetID }
    }

    /// Since when the oldest entry waits. Looks at every slot.
    var oldest: Instant? {
        slots.lazy.filter { $0.kind != .free }.map(\.since).min()
    }

    /// Twice the slots. Entries of different low bits stay apart when one more bit tells them apart; free slots, which bear the
    /// identifier that they had last or 0, are in nobody's way.
    private mutating func grow() {
        let old = slots
        slots = Array(repeating: Entry(), count: max(8, old.count * 2))
        for entry in old where entry.kind != .free { slots[Int(entry.packetID) & (slots.count - 1)] = entry }
    }
}
