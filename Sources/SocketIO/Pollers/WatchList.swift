/// The handler of each descriptor. A token holds the place and its generation. So an event for a descriptor that was
/// closed meanwhile finds no handler, even if its place is in use again.
struct WatchList {
    private struct Place {
        var handler: (any PollHandler)?
        var generation: UInt32 = 0
    }

    private var places: [Place] = []
    private var free: [UInt32] = []

    /// How many descriptors are watched.
    var count: Int { places.count - free.count }

    mutating func add(_ handler: any PollHandler) -> UInt64 {
        let index: UInt32
        if let reused = free.popLast() {
            index = reused
        } else {
            index = UInt32(places.count)
            places.append(Place())
        }
        places[Int(index)].handler = handler
        return UInt64(places[Int(index)].generation) << 32 | UInt64(index)
    }

    mutating func remove(_ token: UInt64) {
        guard handler(token) != nil else { return }
        let index = UInt32(truncatingIfNeeded: token)
        places[Int(index)].handler = nil
        places[Int(index)].generation &+= 1
        free.append(index)
    }

    func handler(_ token: UInt64) -> (any PollHandler)? {
        let index = Int(UInt32(truncatingIfNeeded: token))
        guard index < places.count, places[index].generation == UInt32(truncatingIfNeeded: token >> 32) else {
            return nil
        }
        return places[index].handler
    }
}
