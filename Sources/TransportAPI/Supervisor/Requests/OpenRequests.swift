/// The end of a request: the peer's answer, or why there is none.
package typealias RequestAnswer = Result<Payload, RequestError>

/// The requests that wait for their answers, by number. A value that does no I/O. Each request that was added leaves it
/// once, together with its answer.
package struct OpenRequests<Caller> {
    /// A request that has ended, and how.
    package struct Ended {
        package let caller: Caller
        package let answer: RequestAnswer
    }

    private enum Phase {
        /// The message of the request has no outcome yet.
        case submitted
        /// The time is over and the message is cancelled. Its outcome says whether it has left.
        case overdue
        /// The connection or the peer has taken the message.
        case taken
    }

    private struct Entry {
        var caller: Caller
        var phase = Phase.submitted
    }

    private var entries: [UInt64: Entry] = [:]
    private var next: UInt64
    private let limit: Int

    /// - Parameters:
    ///   - first: The first number. It is random, so that no answer to a request of an earlier process fits.
    ///   - limit: The maximum number of open requests.
    package init(first: UInt64, limit: Int) {
        next = first
        self.limit = limit
    }

    package var count: Int { entries.count }
    package var isFull: Bool { entries.count >= limit }

    /// Adds a request, and returns its number; `nil` if there are too many.
    package mutating func add(_ caller: Caller) -> UInt64? {
        guard !isFull else { return nil }
        let number = next
        next &+= 1
        entries[number] = Entry(caller: caller)
        return number
    }

    /// Returns the caller of an open request.
    package subscript(_ number: UInt64) -> Caller? {
        get { entries[number]?.caller }
        set { if let newValue { entries[number]?.caller = newValue } }
    }

    /// Whether the message of an open request has no outcome yet.
    package func isPending(_ number: UInt64) -> Bool {
        guard let phase = entries[number]?.phase, phase != .taken else { return false }
        return true
    }

    /// Takes the outcome of the message of a request.
    ///
    /// - Parameter gone: Why no answer to a message that was taken can come, if that is so.
    package mutating func settled(_ number: UInt64, _ outcome: SendOutcome, gone: TransportError?) -> Ended? {
        guard let phase = entries[number]?.phase else { return nil }
        switch (phase, outcome) {
        case (.overdue, .rejected), (.overdue, .expired): return end(number, .notSent(.notSentInTime))
        case (.overdue, _): return end(number, .timedOut)
        case (_, .rejected(let error)): return end(number, .notSent(error))
        case (_, .expired): return end(number, .notSent(.tooOldToSend))
        case (_, .unknown(let error)): return end(number, .unknown(error))
        case (_, .acknowledged), (_, .written):
            if let gone { return end(number, .unknown(gone)) }
            entries[number]?.phase = .taken
            return nil
        }
    }

    /// Takes an answer. Returns `nil` if no open request has its number.
    package mutating func answered(_ number: UInt64, _ answer: RequestAnswer) -> Ended? {
        entries.removeValue(forKey: number).map { Ended(caller: $0.caller, answer: answer) }
    }

    /// The time of a request is over, and its message is about to be cancelled if it has no outcome.
    package mutating func overdue(_ number: UInt64) {
        if isPending(number) { entries[number]?.phase = .overdue }
    }

    /// Ends a request without an answer.
    package mutating func end(_ number: UInt64, _ error: RequestError) -> Ended? {
        answered(number, .failure(error))
    }

    /// Ends all requests whose messages were taken, because no answer can come any more.
    package mutating func loseAnswers(_ error: TransportError) -> [Ended] {
        // In the order of the numbers, which may begin again at 0.
        let taken = entries.filter { $0.value.phase == .taken }.keys.sorted { $0 &- next < $1 &- next }
        return taken.compactMap { end($0, .unknown(error)) }
    }
}

extension TransportError {
    fileprivate static let notSentInTime = TransportError(
        .timedOut,
        .open,
        "the request was still in the outbox at the end of its time limit; "
            + "check that the supervisor is connected, or allow more time"
    )
    fileprivate static let tooOldToSend = TransportError(
        .timedOut,
        .open,
        "the request reached the maximum age of messages in the outbox before it could be sent"
    )
}
