#if os(Linux)
import CSocketIO
import Primitives

/// epoll(7), edge-triggered. A descriptor is registered once for its whole life, and re-arming it takes no system call
/// unless it is watched for reading only.
final class EpollPoller: Poller {
    private static let wakeToken = UInt64.max
    private static let timerToken = UInt64.max - 1
    private static let batch = 256

    private let epoll: Descriptor
    private let wakeUp: Descriptor
    private let timer: Descriptor
    // Exclusivity is unchecked, here and below, because no callback runs while these change. The next three belong to
    // the thread that waits.
    private let buffer = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: EpollPoller.batch)
    @exclusivity(unchecked) private var timeout: Int32 = 0
    @exclusivity(unchecked) private var count = 0

    /// Descriptors that are watched for reading only, and whether each is watched for writing now. A UDP socket becomes
    /// writable again whenever a datagram has left it, which would wake the loop for each datagram sent.
    @exclusivity(unchecked) private var readers: [UInt64: (descriptor: Int32, isWriting: Bool)] = [:]
    /// The number of ``readers`` that are watched for writing now.
    @exclusivity(unchecked) private(set) var writing = 0
    /// When the timer fires; `.max` if it is not set.
    @exclusivity(unchecked) private var armed = Int64.max

    init() throws(SystemError) {
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw SystemError("epoll_create1") }
        self.epoll = Descriptor(epoll)
        let wakeUp = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
        guard wakeUp >= 0 else { throw SystemError("eventfd") }
        self.wakeUp = Descriptor(wakeUp)
        let timer = timerfd_create(CSOCKETIO_CLOCK, Int32(TFD_NONBLOCK) | Int32(TFD_CLOEXEC))
        guard timer >= 0 else { throw SystemError("timerfd_create") }
        self.timer = Descriptor(timer)
        try add(timer, token: Self.timerToken, interest: .read)
        try add(wakeUp, token: Self.wakeToken, interest: .read)
    }

    deinit {
        buffer.deallocate()
    }

    func add(_ descriptor: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
        guard control(EPOLL_CTL_ADD, descriptor, token, interest) == 0 else { throw SystemError("epoll_ctl") }
        if !interest.contains(.write) { readers[token] = (descriptor, false) }
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ token: UInt64, _ interest: Readiness) -> Int32 {
        var event = epoll_event()
        event.events = CSOCKETIO_EPOLLIN | CSOCKETIO_EPOLLRDHUP | CSOCKETIO_EPOLLET
        if interest.contains(.write) { event.events |= CSOCKETIO_EPOLLOUT }
        event.data.u64 = token
        return epoll_ctl(epoll.raw, operation, descriptor, &event)
    }

    func remove(_ descriptor: Int32, token: UInt64) {
        if let (_, isWriting) = readers.removeValue(forKey: token), isWriting { writing -= 1 }
        var ignored = epoll_event()
        _ = epoll_ctl(epoll.raw, EPOLL_CTL_DEL, descriptor, &ignored)
    }

    func rearm(_ descriptor: Int32, token: UInt64, _ readiness: Readiness) {
        guard !readers.isEmpty, readiness.contains(.write) else { return }
        // A descriptor that is watched for writing already gets its event once.
        guard let (_, isWriting) = readers[token], !isWriting else { return }
        readers[token] = (descriptor, true)
        writing += 1
        _ = control(EPOLL_CTL_MOD, descriptor, token, [.read, .write])
    }

    /// Stops watching a reader for writing, because its event has come.
    private func stopWriting(_ token: UInt64) {
        guard let (descriptor, isWriting) = readers[token], isWriting else { return }
        readers[token] = (descriptor, false)
        writing -= 1
        _ = control(EPOLL_CTL_MOD, descriptor, token, .read)
    }

    func prepare(until deadline: Int64?) {
        timeout = deadline == .min ? 0 : -1
        if let deadline, deadline != .min { lowerDeadline(to: deadline) }
    }

    func block() {
        count = Int(epoll_wait(epoll.raw, buffer.baseAddress, Int32(Self.batch), timeout))
    }

    func collect(into events: inout Deque<PollEvent>) -> Bool {
        guard count > 0 else { return count == 0 }
        for event in buffer.prefix(count) {
            switch event.data.u64 {
            case Self.wakeToken: drain(wakeUp.raw)
            case Self.timerToken:
                drain(timer.raw)
                armed = .max
            case let token:
                if writing > 0 && event.events & CSOCKETIO_EPOLLOUT != 0 { stopWriting(token) }
                events.append(PollEvent(token: token, readiness: Self.readiness(event.events)))
            }
        }
        return count < Self.batch
    }

    /// Sets the timer if it would fire too late. This works during a wait too. A timer that fires too early costs one
    /// tick of the loop. A timeout passed to epoll_wait would cost a kernel timer for every wait.
    func lowerDeadline(to deadline: Int64) {
        guard deadline < armed else { return }
        armed = deadline
        var time = itimerspec()
        let positive = max(deadline, 1)
        time.it_value = timespec(tv_sec: Int(positive / 1_000_000_000), tv_nsec: Int(positive % 1_000_000_000))
        _ = timerfd_settime(timer.raw, Int32(TFD_TIMER_ABSTIME), &time, nil)
    }

    private func drain(_ raw: Int32) {
        var ignored: UInt64 = 0
        _ = read(raw, &ignored, 8)
    }

    func wake() {
        var one: UInt64 = 1
        _ = write(wakeUp.raw, &one, 8)
    }

    private static func readiness(_ bits: UInt32) -> Readiness {
        var readiness: Readiness = []
        if bits & CSOCKETIO_EPOLLIN != 0 { readiness.insert(.read) }
        if bits & CSOCKETIO_EPOLLOUT != 0 { readiness.insert(.write) }
        if bits & (CSOCKETIO_EPOLLRDHUP | CSOCKETIO_EPOLLHUP | CSOCKETIO_EPOLLERR) != 0 {
            readiness.formUnion([.read, .write, .hangUp])
        }
        return readiness
    }
}
#endif
