@testable import TransportAPI

/// Feeds arbitrary payloads, outcomes and time limits to both sides of the requests of one conversation. Each request of
/// this side must end once, and the requests of the peer must be handled in their order and within their limit.
func fuzzRequests(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var run = RequestRun(first: input.choice(of: [0, 1, .max, 1 << 63]), limit: input.choice(of: [1, 2, 8]))
    while let step = input.next() { try run.take(step, &input) }
    try run.end()
}

/// Checks that an envelope is written with the bytes from which it was read, and is read as it was written.
private func checkEnvelope(_ payload: Payload) throws -> RequestEnvelope? {
    guard let envelope = RequestEnvelope(payload) else { return nil }
    let written = envelope.bytes
    try ensure(RequestEnvelope(Payload(written)) == envelope, "\(envelope) is read as another one")
    guard case .failure(_, let failure) = envelope else {
        try ensure(written == payload.bytes, "\(envelope) is written as \(written)")
        return envelope
    }
    try ensure(failure.reason.utf8.count <= 1024, "a reason of \(failure.reason.utf8.count) bytes")
    return envelope
}

private struct RequestRun {
    private let limit: Int
    private var open: OpenRequests<Int>
    private var handled: HandledRequests<Int>
    /// The numbers of this side's requests, and how many of them have ended.
    private var numbers: [UInt64] = []
    private var ended: Set<Int> = []
    /// The peer's requests that have not ended, in the order in which they came, by number and work.
    private var incoming: [(number: UInt64, work: Int)] = []
    private var begun: Set<Int> = []
    private var lastWork = 0

    init(first: UInt64, limit: Int) {
        self.limit = limit
        open = OpenRequests(first: first, limit: limit)
        handled = HandledRequests(limit: limit)
    }

    mutating func take(_ step: UInt8, _ input: inout FuzzInput) throws {
        switch step % 8 {
        case 0:
            let wasFull = open.isFull
            guard let number = open.add(numbers.count) else { return try ensure(wasFull, "a request is refused") }
            try ensure(!wasFull && open[number] == numbers.count, "a request has another caller")
            numbers.append(number)
        case 1:
            let outcomes: [SendOutcome] = [.acknowledged, .written, .expired, .rejected(.lost), .unknown(.lost)]
            let gone: TransportError? = input.flag() ? .lost : nil
            try note(open.settled(number(&input), input.choice(of: outcomes), gone: gone))
        case 2: try receive(Payload(input.record()))
        case 3:
            let envelope: RequestEnvelope =
                switch input.choice() % 3 {
                case 0: .request(UInt64(input.choice() & 7), [step])
                case 1: .reply(number(&input), [step])
                default: .failure(number(&input), RequestFailure(code: 16, reason: "no"))
                }
            try receive(envelope.payload())
        case 4:
            let number = number(&input)
            open.overdue(number)
            if input.flag() { try note(open.settled(number, .rejected(.lost), gone: nil)) }
            try note(open.end(number, .timedOut))
        case 5: for each in open.loseAnswers(.lost) { try note(each) }
        case 6:
            guard let request = incoming.first(where: { begun.contains($0.work) }) else { return }
            incoming.removeAll { $0.work == request.work }
            if let next = handled.ended(request.number) { try begin(next) }
        default:
            let waiting = handled.removeWaiting()
            try ensure(waiting == incoming.filter { !begun.contains($0.work) }.map(\.work), "others wait")
            incoming.removeAll { !begun.contains($0.work) }
        }
        try ensure(open.count <= limit && handled.current <= limit, "more than \(limit) at the same time")
        try ensure(handled.count == incoming.count, "\(handled.count) requests instead of \(incoming.count)")
    }

    /// One of the numbers that were used, or an arbitrary one.
    private func number(_ input: inout FuzzInput) -> UInt64 {
        let choice = Int(input.choice())
        return choice < numbers.count ? numbers[choice] : numbers.last.map { $0 &+ UInt64(choice) } ?? 0
    }

    private mutating func receive(_ payload: Payload) throws {
        switch try checkEnvelope(payload) {
        case nil: break
        case .request(let number, _): try handle(number)
        case .reply(let number, let body): try note(open.answered(number, .success(Payload(body))))
        case .failure(let number, let failure):
            try note(open.answered(number, .failure(.refused(code: failure.code, reason: failure.reason))))
        }
    }

    private mutating func handle(_ number: UInt64) throws {
        lastWork += 1
        let isKnown = incoming.contains { $0.number == number }
        switch handled.add(number, lastWork) {
        case .repeated: return try ensure(isKnown, "a new number counts as repeated")
        case .wait: try ensure(handled.current == limit, "a request waits although there is room")
        case .handle: begun.insert(lastWork)
        }
        try ensure(!isKnown, "a number is handled twice at the same time")
        incoming.append((number, lastWork))
    }

    private mutating func begin(_ work: Int) throws {
        let first = incoming.first { !begun.contains($0.work) }
        try ensure(first?.work == work, "request \(work) overtakes another one")
        begun.insert(work)
    }

    private mutating func note(_ end: OpenRequests<Int>.Ended?) throws {
        guard let end else { return }
        try ensure(ended.insert(end.caller).inserted, "request \(end.caller) ends twice")
    }

    mutating func end() throws {
        for number in numbers { try note(open.end(number, .cancelled)) }
        try ensure(open.count == 0 && ended.count == numbers.count, "\(ended.count) of \(numbers.count) have ended")
        try ensure(handled.removeAll().count == incoming.count && handled.count == 0, "requests are left")
    }
}

extension TransportError {
    fileprivate static let lost = TransportError(.connectionLost, .open, "lost")
}
