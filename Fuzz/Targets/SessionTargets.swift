@testable import TransportAPI

/// Checks that a frame of the session envelope is written with the same bytes from which it was read.
func fuzzSessionFrames(_ bytes: [UInt8]) throws {
    do throws(TransportError) {
        let frame = try SessionFrame(Payload(bytes))
        let written = frame.payload.bytes
        guard written == bytes else { throw TransportError(.systemError, .open, "\(frame) is written as \(written)") }
    } catch {
        try ensure([.protocolViolation, .handshakeFailed].contains(error.code), "\(error)")
    }
    _ = SessionFrame.isOrigin(Payload(bytes))
}

extension FuzzInput {
    /// A frame with small numbers, or arbitrary bytes.
    mutating func sessionPayload() -> Payload {
        let (kind, number) = (next() ?? 0, UInt64(next() ?? 0))
        let frame: SessionFrame
        switch kind % 12 {
        case 0: return Payload(record())
        case 1:
            let (session, limit) = (SessionID(high: number, low: 0), UInt64(kind >> 4))
            let numbering = SessionNumbering(after: number >> 3 & 7, sender: 0)
            let token = kind & 128 == 0 ? nil : "token"
            var hello = ClientHello(incarnation: number & 3, received: number >> 2, limit: limit, numbering: numbering)
            hello.token = token
            frame = .hello(session, hello)
        case 2:
            let numbering = SessionNumbering(after: number >> 5, sender: 1)
            let limit = UInt64(kind >> 4) << 3
            frame = .welcome(incarnation: number & 3, received: number >> 2, limit: limit, numbering: numbering)
        case 3, 4: frame = .message(number, Payload([kind]), isRepeated: kind & 64 != 0)
        case 5: frame = .acknowledge(number)
        case 6: frame = .skip(max(number, 1)...max(number, 1) + UInt64(kind >> 4))
        case 7: frame = .ping(UInt32(number))
        case 8: frame = .pong(UInt32(number))
        case 9: frame = .bye
        case 10: frame = .refused(SessionFrame.Refusal(rawValue: UInt8(number & 3)) ?? .full)
        default:
            frame = .origin(
                SessionID(high: number >> 4, low: 0),
                number & 15,
                Payload([kind]),
                isRepeated: kind & 32 != 0
            )
        }
        return frame.payload
    }

    mutating func supervisorConfiguration() -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = choice(of: [.session, .plain])
        configuration.delivery.window = choice(of: [64, 1, 3])
        configuration.outbox.maximumCount = choice(of: [1000, 3])
        configuration.outbox.maximumBytes = choice(of: [1 << 20, 40])
        configuration.outbox.maximumAge = choice(of: [nil, .seconds(5)])
        configuration.outbox.whenFull = choice(of: [.wait, .dropOldest, .refuseNewest])
        configuration.keepalive.interval = choice(of: [.automatic, .seconds(1), .off])
        if flag() { configuration.keepalive.adaptive = AdaptiveKeepaliveConfiguration() }
        if flag() { configuration.maximumAttempts = 3 }
        return configuration
    }

    mutating func capabilities() -> Capabilities {
        let bits = choice()
        return Capabilities(
            isReliable: bits & 1 == 0,
            hasNativePing: bits & 2 == 0,
            acknowledgesMessages: bits & 4 != 0,
            completesSends: bits & 16 != 0,
            routesByTopic: bits & 8 != 0,
            maximumMessageSize: 1000
        )
    }
}

/// The record of the messages that a state machine was given and has sent. With it a target keeps to the contract of
/// the machine's driver.
struct SessionRecord {
    private(set) var submitted = 0
    /// The last identifier of a message.
    private(set) var last: UInt64 = 0
    private var ids: Set<MessageID> = []
    private(set) var finished: Set<MessageID> = []
    /// The messages that were passed to a connection and are not settled.
    private(set) var handed: [(connection: Int, id: MessageID)] = []
    private(set) var live: Set<Int> = []
    private(set) var attempted: Int?
    /// The marks of messages of brokers that the store does not have yet.
    private(set) var waitingMarks = 0
    private var isClosed = false

    /// Gives the next message its identifier.
    mutating func submit() -> MessageID {
        submitted(last + 1)
        return MessageID(last)
    }

    /// Records a message of this number.
    mutating func submitted(_ number: UInt64) {
        submitted += 1
        last = max(last, number)
        ids.insert(MessageID(number))
    }

    /// Records that an earlier process has given its messages numbers up to this one.
    mutating func restored(through number: UInt64) {
        last = number
    }

    mutating func connected(_ connection: Int) {
        if attempted == connection { attempted = nil }
        live.insert(connection)
    }

    mutating func ended(_ connection: Int) {
        live.remove(connection)
    }

    mutating func settle(_ choice: UInt8) -> (connection: Int, id: MessageID)? {
        handed.isEmpty ? nil : handed.remove(at: Int(choice) % handed.count)
    }

    /// Records that the store has this number of marks, or fewer if it has all.
    mutating func storeMarks(_ count: Int) -> Int {
        let count = min(count, waitingMarks)
        waitingMarks -= count
        return count
    }

    mutating func note(_ actions: [SupervisorAction]) throws {
        for action in actions {
            switch action {
            case .connect(let connection, _, _, _): attempted = connection
            case .abandon(let connection), .close(let connection, _):
                if attempted == connection { attempted = nil }
                live.remove(connection)
            case .transmit(let connection, let id, _):
                try ensure(live.contains(connection), "a message is sent over closed connection \(connection)")
                if let id { handed.append((connection, id)) }
            case .complete(let connection, let id, _, _): handed.append((connection, id))
            case .confirm(let connection, let count):
                try ensure(live.contains(connection), "a message is acknowledged over closed connection \(connection)")
                try ensure(count > 0, "an acknowledgement of nothing")
            case .storeMark: waitingMarks += 1
            case .finish(let id, _):
                try ensure(ids.contains(id), "the end of message \(id), which was never submitted")
                try ensure(finished.insert(id).inserted, "message \(id) ends twice")
            case .state(.closed):
                try ensure(!isClosed, "it closes twice")
                isClosed = true
            default: break
            }
        }
    }

    /// Checks the limits of all buffers, and at the end that every message has an outcome.
    func check(_ delivery: Delivery, _ configuration: SupervisorConfiguration, isOver: Bool) throws {
        let outbox = configuration.outbox
        try ensure(delivery.outbox.count <= outbox.maximumCount + 1024, "\(delivery.outbox.count) messages are queued")
        try ensure(0...outbox.maximumBytes ~= delivery.outbox.bytes, "\(delivery.outbox.bytes) bytes are queued")
        try ensure(delivery.waiting.count <= outbox.maximumCount, "\(delivery.waiting.count) callers wait")
        try ensure(delivery.receiver.earlyCount <= Int(SessionReceiver.window), "too many came early")
        // Messages that a connection has end when it has settled them.
        guard isOver, handed.isEmpty else { return }
        try ensure(finished.count == submitted, "\(finished.count) of \(submitted) have ended")
    }
}
