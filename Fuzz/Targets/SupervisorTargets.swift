@testable import TransportAPI

private let someErrors: [TransportError] = [
    TransportError(.connectionLost, .open, "lost"), TransportError(.authenticationFailed, .handshake, "token"),
    TransportError(.serverUnavailable, .handshake, "busy", retryAfter: .seconds(9000)),
    TransportError(.protocolViolation, .open, "wrong"), TransportError(.messageTooLarge, .open, "large"),
]

/// Ends of a connection that say nothing about a message, and such that do.
private let someReasons =
    someErrors.map { CloseReason($0) } + [
        CloseReason(peerClosed: 1009, text: ""), CloseReason(.peer), CloseReason(SessionFrame.Refusal.broken.error),
    ]

private let someWaits: [Duration] = [.milliseconds(1), .seconds(1), .seconds(11), .seconds(200), .seconds(4000)]

private func outcome(_ choice: UInt8) -> SendOutcome {
    let error = someErrors[Int(choice >> 3) % someErrors.count]
    switch choice & 3 {
    case 0: return .written
    case 1: return .acknowledged
    case 2: return .rejected(error)
    default: return .unknown(error)
    }
}

/// Runs the client's state machine with all its events, in any order that its driver allows.
func fuzzSupervisor(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let configuration = input.supervisorConfiguration()
    let capabilities = input.capabilities()
    let endpoints = [Endpoint(scheme: "tcp", host: "a"), Endpoint(scheme: "ws", host: "b")]
    var random = RandomSource.seeded(3)
    let isStored = input.flag()
    var machine = SupervisorStateMachine(configuration, endpoints: endpoints, isStored: isStored, using: &random)
    var (record, now) = (SessionRecord(), Instant.zero)
    func note(_ actions: [SupervisorAction]) throws {
        try record.note(actions)
        try record.check(machine.link.delivery, configuration, isOver: machine.isOver)
    }
    func handle(_ event: SupervisorStateMachine.Event) throws {
        var actions: [SupervisorAction] = []
        machine.handle(event, at: now, using: &random, &actions)
        try note(actions)
    }
    func take(_ event: ConversationEvent) throws {
        var actions: [SupervisorAction] = []
        machine.handle(event, at: now, using: &random, &actions)
        try note(actions)
    }
    if isStored, configuration.delivery.mode == .session {
        // An earlier process has sent some messages, of which the store has the last few.
        var session = StoredSession(
            identity: SessionID(high: 1, low: 2),
            sender: 3,
            markKey: OriginFilter.Key(high: 4, low: 5)
        )
        session.incarnation = UInt64(input.choice() & 3)
        session.processed = UInt64(input.choice() & 7)
        session.lastNumber = UInt64(input.choice() & 15)
        let ended = min(session.lastNumber, UInt64(input.choice() & 7))
        record.restored(through: session.lastNumber)
        try handle(.restored(session, after: ended, []))
        var number = ended + 1
        while number <= session.lastNumber {
            if input.flag() {
                record.submitted(number)
                try take(.submit(MessageID(number), Payload([UInt8(number)])))
            }
            number += 1
        }
        try take(.stored(MessageID(session.lastNumber)))
    }
    try handle(.connect)
    while let what = input.next() {
        let argument = what >> 4
        let connection = argument == 15 ? 1 : machine.connection
        switch what & 15 {
        case 0:
            guard let attempt = record.attempted else { continue }
            record.connected(attempt)
            try handle(.connected(attempt, capabilities))
        case 1: if let attempt = record.attempted { try handle(.failed(attempt, someErrors[Int(argument) % 5])) }
        case 2, 3, 4:
            let payload = input.sessionPayload()
            if record.live.contains(connection) { try take(.received(connection, payload)) }
        case 5:
            guard record.live.contains(connection) else { continue }
            record.ended(connection)
            try take(.ended(connection, someReasons[Int(argument) % someReasons.count]))
        case 6: try take(.submit(record.submit(), Payload([UInt8](repeating: what, count: Int(argument) * 4))))
        case 7: try take(.cancel(MessageID(UInt64(argument))))
        case 8:
            let choice = input.next() ?? 0
            if let (connection, id) = record.settle(choice) { try take(.settled(connection, id, outcome(choice))) }
        case 9: try handle([.connect, .suspend, .resume][Int(argument) % 3])
        case 10: try handle(.path(NetworkPath(isUsable: argument & 1 == 0, network: "\(argument >> 1)")))
        case 11: try take(.pong(connection, .milliseconds(Int(argument))))
        case 12: try take(.reading([.all, .withoutRoom, .nothing][Int(argument) % 3]))
        case 13:
            switch argument {
            case 13: try take(.close(.user))
            case 14: try take(.acknowledgesAfterProcessing)
            case 10...12 where isStored:
                try take(.stored(MessageID(record.last - min(record.last, UInt64(argument) - 10))))
            case 8,
                9 where isStored:
                try take(.notStored([MessageID(record.last)], someErrors[0]))
            case 7 where isStored:
                let processed = machine.link.delivery.receiver.received
                try take(.storedSession(machine.incarnation, processed: processed))
            case 6 where record.waitingMarks > 0: try take(.storedMarks(record.storeMarks(Int(input.choice() & 3) + 1)))
            default: try take(.processed(UInt64(argument >> 1), isAbandoned: argument & 1 == 1))
            }
        default:
            let end = now.advanced(by: someWaits[Int(argument) % 5])
            var ticks = 0
            while let deadline = machine.deadline, deadline <= end {
                now = max(now, deadline)
                ticks += 1
                try ensure(ticks < 5000, "deadlines follow each other without end")
                try take(.deadlineReached(SignsOfLife(bytesReceived: UInt64(argument))))
            }
            now = end
        }
    }
    try take(.close(.user))
    while let (connection, id) = record.settle(0) {
        try take(.settled(connection, id, outcome(UInt8(id.number & 255))))
    }
    try ensure(machine.isOver && machine.deadline == nil, "it does not end")
}

/// Runs the server's session with the hellos, frames and connections of any client.
func fuzzServedSession(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let configuration = input.supervisorConfiguration()
    let capabilities = input.capabilities()
    let isSession = Delivery.style(configuration.delivery, capabilities) == .session
    var session = ServerSessionStateMachine(configuration, incarnation: 2, lifetime: .seconds(600), at: .zero)
    var (record, now, lastConnection) = (SessionRecord(), Instant.zero, 0)
    func note(_ actions: [SupervisorAction]) throws {
        try record.note(actions)
        try record.check(session.link.delivery, configuration, isOver: session.isOver)
    }
    func take(_ event: ConversationEvent) throws {
        var actions: [SupervisorAction] = []
        session.handle(event, at: now, &actions)
        try note(actions)
    }
    func handle(_ event: ServerSessionStateMachine.Event) throws {
        var actions: [SupervisorAction] = []
        session.handle(event, at: now, &actions)
        try note(actions)
    }
    while let what = input.next() {
        let argument = what >> 4
        switch what & 15 {
        case 0, 1:
            guard !session.isOver else { continue }
            if argument < 12 || session.connection == 0 { lastConnection += 1 }
            let hello = ClientHello(
                incarnation: UInt64(argument & 3),
                received: UInt64(argument >> 2),
                attempt: UInt32(input.next() ?? 0),
                limit: UInt64(argument) << 4,
                numbering: SessionNumbering(after: UInt64(input.choice() & 7), sender: 0)
            )
            record.connected(lastConnection)
            try handle(.attach(lastConnection, capabilities, isSession ? hello : nil))
        case 2, 3, 4, 5:
            let payload = input.sessionPayload()
            if record.live.contains(session.connection) { try take(.received(session.connection, payload)) }
        case 6:
            let connection = session.connection
            record.ended(connection)
            let reason = someReasons[Int(argument) % someReasons.count]
            try take(.ended(connection, reason))
        case 7:
            let id = record.submit()
            try take(.submit(id, Payload([UInt8](repeating: what, count: Int(argument) * 4))))
        case 8: try take(.cancel(MessageID(UInt64(argument))))
        case 9:
            let choice = input.next() ?? 0
            guard let (connection, id) = record.settle(choice) else { continue }
            try take(.settled(connection, id, outcome(choice)))
        case 10: try take(.reading([.all, .withoutRoom, .nothing][Int(argument) % 3]))
        case 11: try take(.pong(session.connection, .milliseconds(3)))
        case 12:
            switch argument {
            case 12: try take(.close(.user))
            case 14: try take(.acknowledgesAfterProcessing)
            default: try take(.processed(UInt64(argument >> 1), isAbandoned: argument & 1 == 1))
            }
        default:
            let end = now.advanced(by: someWaits[Int(argument) % 5])
            var ticks = 0
            while let deadline = session.deadline, deadline <= end {
                now = max(now, deadline)
                ticks += 1
                try ensure(ticks < 5000, "deadlines follow each other without end")
                try take(.deadlineReached(SignsOfLife(bytesReceived: UInt64(argument))))
            }
            now = end
        }
    }
    try take(.close(.user))
    while let (connection, id) = record.settle(0) {
        try take(.settled(connection, id, outcome(UInt8(id.number & 255))))
    }
    try ensure(session.isOver && session.deadline == nil, "it does not end")
}
