import Primitives

/// poll(2), for systems without epoll. It is level-triggered. To report edges, the poller stops watching for a reported
/// event until the owner re-arms it.
///
/// poll(2) uses only the list that it was given. So the waiting thread has a copy, and is woken when the list changes.
final class PortablePoller: Poller {
    private var entries: [pollfd] = []
    private var tokens: [UInt64] = []
    private var indexes: [Int32: Int] = [:]
    /// The list and the timeout of the current wait. They belong to the waiting thread while it waits.
    private var asked: [pollfd] = []
    private var timeout: Int32 = 0
    private var count: Int32 = 0
    /// The tokens of ``asked``.
    private var askedTokens: [UInt64] = []
    /// When the waiting thread wakes by itself; `.min` if no thread waits or it has been woken.
    private var wakesAt = Int64.min

    private let wakeReader: Descriptor
    private let wakeWriter: Descriptor

    init() throws(SystemError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError("pipe") }
        wakeReader = Descriptor(ends[0])
        wakeWriter = Descriptor(ends[1])
        for end in ends { try Platform.makeNonBlocking(end) }
        entries.append(pollfd(fd: wakeReader.raw, events: Int16(POLLIN), revents: 0))
        tokens.append(.max)
    }

    func add(_ descriptor: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
        guard indexes[descriptor] == nil else { throw SystemError("poll", EEXIST) }
        indexes[descriptor] = entries.count
        let events = Int16(POLLIN) | (interest.contains(.write) ? Int16(POLLOUT) : 0)
        entries.append(pollfd(fd: descriptor, events: events, revents: 0))
        tokens.append(token)
        lowerDeadline(to: .min)
    }

    func remove(_ descriptor: Int32, token _: UInt64) {
        guard let index = indexes.removeValue(forKey: descriptor) else { return }
        let last = entries.count - 1
        if index != last {
            entries[index] = entries[last]
            tokens[index] = tokens[last]
            indexes[Self.descriptor(entries[index])] = index
        }
        entries.removeLast()
        tokens.removeLast()
        // Until poll(2) returns, the system keeps its descriptors open, and a closed connection would not end.
        lowerDeadline(to: .min)
    }

    func rearm(_ descriptor: Int32, token _: UInt64, _ readiness: Readiness) {
        guard let index = indexes[descriptor] else { return }
        if readiness.contains(.read) { entries[index].events |= Int16(POLLIN) }
        if readiness.contains(.write) { entries[index].events |= Int16(POLLOUT) }
        entries[index].fd = descriptor
        lowerDeadline(to: .min)
    }

    func prepare(until deadline: Int64?) {
        timeout = deadline.map { $0 == .min ? 0 : Self.milliseconds(max(0, $0 - MonotonicClock.now())) } ?? -1
        wakesAt = deadline ?? .max
        asked.removeAll(keepingCapacity: true)
        asked.append(contentsOf: entries)
        askedTokens.removeAll(keepingCapacity: true)
        askedTokens.append(contentsOf: tokens)
    }

    func block() {
        count = poll(&asked, nfds_t(asked.count), timeout)
    }

    func collect(into events: inout Deque<PollEvent>) -> Bool {
        wakesAt = .min
        guard count > 0 else { return count == 0 }
        if asked[0].revents != 0 { drainWakeUps() }
        for place in asked.indices.dropFirst() where asked[place].revents != 0 {
            // The entry can have moved or been removed meanwhile, and another one can have its number.
            guard let index = indexes[asked[place].fd], tokens[index] == askedTokens[place] else { continue }
            events.append(PollEvent(token: tokens[index], readiness: disarm(index, asked[place].revents)))
        }
        return true
    }

    func lowerDeadline(to deadline: Int64) {
        guard deadline < wakesAt else { return }
        wakesAt = .min
        wake()
    }

    func wake() {
        var byte: UInt8 = 1
        _ = write(wakeWriter.raw, &byte, 1)
    }

    /// Returns the readiness of an entry and stops watching for it. poll(2) always reports a broken connection. So an
    /// entry that watches for nothing more gets a negative descriptor, which poll(2) skips.
    private func disarm(_ index: Int, _ bits: Int16) -> Readiness {
        var readiness: Readiness = []
        if bits & Int16(POLLIN) != 0 { readiness.insert(.read) }
        if bits & Int16(POLLOUT) != 0 { readiness.insert(.write) }
        if bits & (Int16(POLLHUP) | Int16(POLLERR) | Int16(POLLNVAL)) != 0 {
            readiness.formUnion([.read, .write, .hangUp])
        }
        if readiness.contains(.read) { entries[index].events &= ~Int16(POLLIN) }
        if readiness.contains(.write) { entries[index].events &= ~Int16(POLLOUT) }
        if entries[index].events == 0 { entries[index].fd = ~entries[index].fd }
        return readiness
    }

    private func drainWakeUps() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(wakeReader.raw, &bytes, bytes.count) == bytes.count {}
    }

    private static func descriptor(_ entry: pollfd) -> Int32 {
        entry.fd < 0 ? ~entry.fd : entry.fd
    }

    /// Rounds up, so that a timer is never early and the loop does not spin through the last millisecond.
    static func milliseconds(_ nanoseconds: Int64) -> Int32 {
        Int32(clamping: nanoseconds / 1_000_000 + (nanoseconds % 1_000_000 > 0 ? 1 : 0))
    }
}
