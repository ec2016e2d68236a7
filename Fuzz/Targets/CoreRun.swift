import TransportAPI

@testable import Protocols
@testable import Transports

/// An event of a core that can be compared.
enum SeenEvent: Equatable {
    case opened
    case pong(UInt64)
    case message(Payload)
    case acknowledged(UInt64)
    case written(UInt64)
    case refused(UInt64, TransportError)
    case discarded(DiscardedMessage)
    case signal(MQTTSignal)
    case closed(CloseReason)
}

/// One core with its buffers. It is driven as by a driver, within the contract of ``ProtocolCore``.
struct CoreRun<Core: ProtocolCore>: ~Copyable {
    var core: Core
    var input = ByteBuffer()
    var context: CoreContext
    /// The most bytes that an open core may leave unread.
    let inputLimit: Int
    private(set) var events: [SeenEvent] = []
    /// The number of messages among the events.
    private(set) var messageCount = 0
    private(set) var failure: TransportError?
    /// All output so far.
    private(set) var written: [UInt8] = []
    private var answered: Set<UInt64> = []
    private var lastID: UInt64 = 0
    private var isClosed = false

    init(_ core: Core, inputLimit: Int = .max) {
        self.core = core
        self.inputLimit = inputLimit
        context = CoreContext(random: .seeded(5))
        self.core.start(&context)
    }

    /// Whether the core has ended.
    var isOver: Bool { failure != nil || isClosed }

    mutating func perform(_ step: CoreStep, _ slicing: inout Slicing) throws {
        guard !isOver else { return }
        switch step {
        case .feed(let bytes):
            for slice in slicing.slices(of: bytes) { try feed(Array(slice)) }
        case .send(let payload): send(payload)
        case .ping:
            do throws(TransportError) {
                try core.ping(&context)
            } catch {
                try ensure(!error.reason.isEmpty, "an error without a reason")
            }
        case .confirm: core.confirmReceipt(&context)
        case .close(let reason): core.close(reason, &context)
        case .wait(let duration): try wait(duration)
        case .endInput: try end()
        }
        try drain()
    }

    /// Appends the output since the last step to ``written``.
    mutating func collect() {
        written += takeOutput()
    }

    /// Passes the bytes of one read, or one datagram, to the core.
    mutating func feed(_ bytes: [UInt8]) throws {
        guard !isOver else { return }
        input.append(contentsOf: bytes)
        try drain()
        if !isOver { try ensure(input.count <= inputLimit, "\(input.count) bytes are left unread") }
    }

    /// Removes the bytes that the core has written and returns them.
    mutating func takeOutput() -> [UInt8] {
        defer {
            context.output.removeAll()
            context.datagramEnds.removeAll()
        }
        return context.output.bytes(at: 0, count: context.output.count) ?? []
    }

    /// Removes the datagrams that the core has written and returns them.
    mutating func takeDatagrams() throws -> [[UInt8]] {
        let ends = context.datagramEnds
        let bytes = takeOutput()
        try ensure((ends.last ?? 0) == bytes.count, "bytes were written outside of a datagram")
        try ensure(zip([0] + ends, ends).allSatisfy { $0 < $1 }, "an empty datagram was written")
        return zip([0] + ends, ends).map { Array(bytes[$0..<$1]) }
    }

    /// Sends a message and returns its status; `nil` if the core refuses it.
    @discardableResult
    mutating func send(_ payload: Payload) -> SendStatus? {
        lastID += 1
        return try? core.send(payload, id: lastID, &context)
    }

    /// Calls `next` until it reports no further event.
    mutating func drain() throws {
        guard !isOver else { return }
        while !isClosed {
            do throws(TransportError) {
                guard let event = try core.next(&input, &context) else { break }
                note(event)
            } catch {
                failure = error
                break
            }
        }
        try check()
    }

    /// Calls `next` once and returns its event, which is noted; `nil` also after an error.
    mutating func nextEvent() -> CoreEvent? {
        guard !isOver else { return nil }
        do throws(TransportError) {
            guard let event = try core.next(&input, &context) else { return nil }
            note(event)
            return event
        } catch {
            failure = error
            return nil
        }
    }

    /// Handles a deadline that is due.
    mutating func deadlineReached() {
        do throws(TransportError) { try core.deadlineReached(&context) } catch { failure = error }
    }

    private mutating func wait(_ duration: Duration) throws {
        let end = context.now.advanced(by: duration)
        var ticks = 0
        while !isOver, let deadline = core.deadline, deadline <= end {
            context.now = max(context.now, deadline)
            ticks += 1
            try ensure(ticks < 5000, "deadlines follow each other without end")
            deadlineReached()
            try drain()
        }
        context.now = end
    }

    private mutating func end() throws {
        do throws(TransportError) { note(try core.inputEnded(&context)) } catch { failure = error }
        try check()
    }

    private mutating func note(_ event: CoreEvent) {
        switch event {
        case .opened: events.append(.opened)
        case .message(let payload):
            events.append(.message(payload))
            messageCount += 1
        case .pong(let number): events.append(.pong(number))
        case .acknowledged(let id): events.append(.acknowledged(id))
        case .written(let id): events.append(.written(id))
        case .refused(let id, let error): events.append(.refused(id, error))
        case .progress: break
        case .discarded(let message): events.append(.discarded(message))
        case .signal(let signal): if let signal = signal.mqtt { events.append(.signal(signal)) }
        case .closed(let reason):
            events.append(.closed(reason))
            isClosed = true
        }
    }

    private var checked = 0

    /// Checks the rules for every core: `opened` comes once and before all messages, and each outcome comes once.
    private mutating func check() throws {
        for (index, event) in events.enumerated().dropFirst(checked) {
            switch event {
            case .opened: try ensure(index == 0, "opened is not the first event")
            case .closed: break
            case .acknowledged(let id), .written(let id), .refused(let id, _):
                // The highest number belongs to no message.
                guard id != .max else { continue }
                try ensure(1...lastID ~= id, "an answer to message \(id), which was never sent")
                try ensure(answered.insert(id).inserted, "message \(id) is answered twice")
            case .pong(let number): try ensure(number > 0, "the answer to a ping without a number")
            case .message, .signal, .discarded: try ensure(events.first == .opened, "an event before opened")
            }
        }
        checked = events.count
        if let failure { try ensure(!failure.reason.isEmpty, "an error without a reason") }
    }
}

/// Runs the steps on two cores whose input is cut differently, and compares everything that can be observed. Returns
/// the events.
@discardableResult
func runSliced<Core: ProtocolCore>(
    _ make: () throws -> Core,
    _ steps: [CoreStep],
    _ choice: UInt8,
    inputLimit: Int,
    check: (inout Core) throws -> Void = { _ in },
    mayDiffer: (TransportError) -> Bool = { _ in false }
) throws -> [SeenEvent] {
    var whole = CoreRun(try make(), inputLimit: inputLimit)
    var sliced = CoreRun(try make(), inputLimit: inputLimit)
    var (allAtOnce, cuts) = (Slicing.whole, Slicing(max(choice, 1)))
    for step in steps {
        try whole.perform(step, &allAtOnce)
        try sliced.perform(step, &cuts)
        whole.collect()
        sliced.collect()
        try check(&whole.core)
        try check(&sliced.core)
    }
    if whole.failure.map(mayDiffer) == true || sliced.failure.map(mayDiffer) == true { return whole.events }
    try ensure(whole.events == sliced.events, "sliced \(choice): \(sliced.events) instead of \(whole.events)")
    let (failure, expected) = (sliced.failure, whole.failure)
    // How a foreign peer is described, and answered, depends on how many of its bytes have arrived. It can also exceed
    // the limit of a message before it is recognized.
    if let failure, let expected,
        [failure, expected].allSatisfy({ $0.phase == .handshake || $0.code == .messageTooLarge }),
        [failure, expected].contains(where: { $0.phase == .handshake && $0.reason.contains(" speak") })
    {
        return whole.events
    }
    try ensure(failure == expected, "sliced \(choice): \(failure as Any) instead of \(expected as Any)")
    try ensure(whole.written == sliced.written, "sliced \(choice): another output")
    if !whole.isOver { try ensure(whole.core.deadline == sliced.core.deadline, "sliced: another deadline") }
    return whole.events
}
