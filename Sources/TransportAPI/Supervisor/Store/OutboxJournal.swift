import Primitives

/// The supervisor that a journal works for.
protocol OutboxJournalOwner: AnyObject {
    /// The store is open. Earlier processes have given their messages identifiers up to `last`, and it has these of them, oldest
    /// first. It has this session if the supervisor has sessions, and these marks of processed messages from brokers.
    func restored(
        _ session: StoredSession?,
        _ marks: [OriginFilter.Mark],
        _ messages: [StoredMessage],
        last: UInt64
    )
    /// The store knows that the session has this incarnation, and that its messages up to this number were processed.
    func storedSession(_ incarnation: UInt64, processed: UInt64)
    /// The store has this number of further marks.
    func storedMarks(_ count: Int)
    /// The store has these messages now, and all up to `last`.
    func stored(_ ids: [MessageID], through last: MessageID)
    /// The store could not write these messages.
    func notStored(_ ids: [MessageID], _ error: TransportError)
    /// The store could not be opened or written.
    func storeFailed(_ error: TransportError)
}

/// Writes the messages of an outbox to its store, in order and outside the runtime. While one write is in progress, the
/// next changes gather, and all of them are the next write. So messages that are submitted together share a write and its
/// fsync.
///
/// The changes that gather are limited by the outbox: an insertion is a message that has a place there, and a removal
/// belongs to a message that was written. Lives on its runtime.
final class OutboxJournal {
    private enum Phase {
        /// The store is not open, and nobody has tried, or the last attempt has failed.
        case closed
        case opening
        case open(Write)
        /// It has ended, and the store is closed or about to be.
        case ended(isClosed: Bool)
    }

    /// What the store does.
    private enum Write {
        case none
        /// It writes these messages, the changes that remove others, the session, and this number of marks.
        case inProgress(ids: [MessageID], removals: [StoredRecord.Key], session: StoredSession?, marks: Int)
        /// The removals, the session or marks could not be written. They are tried again with the next message, at this time, or at
        /// the end.
        case failed(retry: UInt64)
    }

    /// What an open store has.
    private struct Contents: Sendable {
        var session: StoredSession?
        var ring = StoredMarks()
        var marks: [OriginFilter.Mark] = []
        var messages: [StoredMessage] = []
        /// The last identifier that an earlier process can have given.
        var lastNumber: UInt64 = 0
        /// Why the session could not be continued.
        var failure: TransportError?
    }

    /// How long removals wait that could not be written, if no message comes before.
    private static let retryTime = Duration.seconds(5)
    /// How long the end waits for the store.
    private static let endTime = Duration.seconds(10)

    private let store: any OutboxStore
    private let runtime: any SupervisorRuntime
    private var queue: (any BlockingQueue)?
    private weak var owner: (any OutboxJournalOwner)?
    private var phase = Phase.closed
    /// The messages that are not written yet, in the order of their identifiers. `nil` stands for one that has ended before.
    private var insertions: [(id: MessageID, record: StoredRecord?)] = []
    private var removals: [StoredRecord.Key] = []
    private var marks = StoredMarks()
    /// The last of the written messages.
    private var lastWritten = MessageID(0)
    /// The session, if the supervisor has sessions. Before the store is open, it is a new one.
    private var session: StoredSession?
    /// Whether the session has to be written.
    private var isSessionChanged = false
    /// Whether the next write only removes, because one has failed. That may make room for the rest.
    private var removesFirst = false
    private var isEnding = false
    private var openers = Waiters<TransportError?>()
    private var closers = Waiters<Void>()
    /// The timer that ends the wait of the closers.
    private var deadline: UInt64?

    /// - Parameter session: The session that a new store gets. `nil` if the supervisor has no sessions.
    init(
        _ store: any OutboxStore,
        _ session: StoredSession?,
        _ owner: any OutboxJournalOwner,
        on runtime: any SupervisorRuntime
    ) {
        (self.store, self.session, self.owner, self.runtime) = (store, session, owner, runtime)
    }

    // MARK: Opening

    /// Opens the store, unless it is open.
    func open() {
        guard case .closed = phase else { return }
        phase = .opening
        do throws(TransportError) {
            if queue == nil { queue = try runtime.makeBlockingQueue("outbox store") }
            let journal = RuntimeBound(self, to: runtime)
            queue?.run { [store, session] in
                let result = Result { () throws(TransportError) in try Self.open(store, session) }
                journal.execute { journal.value.opened(result) }
            }
        } catch {
            failed(error)
        }
    }

    /// Opens the store, and begins the next process of its session.
    private static func open(_ store: any OutboxStore, _ fresh: StoredSession?) throws(TransportError) -> Contents {
        let records = try store.open()
        do throws(TransportError) {
            var contents = Contents()
            var marks: [StoredRecord] = []
            for record in records {
                switch record.key.kind {
                case StoredSession.key.kind: contents.session = try StoredSession(record)
                case StoredMarks.kind: marks.append(record)
                default: contents.messages.append(try StoredMessage(record))
                }
            }
            (contents.ring, contents.marks) = try StoredMarks.read(marks)
            contents.messages.sort { $0.id < $1.id }
            contents.lastNumber = max(contents.session?.lastNumber ?? 0, contents.messages.last?.id.number ?? 0)
            guard let fresh else {
                contents.session = nil
                return contents
            }
            try begin(store, fresh, &contents)
            return contents
        } catch {
            // The store is open, but has records that this version does not know.
            store.close()
            throw error
        }
    }

    private static func begin(
        _ store: any OutboxStore,
        _ fresh: StoredSession,
        _ contents: inout Contents
    ) throws(TransportError) {
        var session = contents.session ?? fresh
        session.lastNumber = contents.lastNumber
        session.launched(or: fresh)
        contents.session = session
        do throws(TransportError) {
            try store.write([.put(session.record)])
        } catch {
            // The disk may be full, and the messages in the store are the way to make room. This process has its own session,
            // because two processes of one session must have different numbers. Messages keep their identifiers.
            contents.failure = error
            contents.session?.begin(as: fresh)
        }
    }

    private func opened(_ result: Result<Contents, TransportError>) {
        do throws(TransportError) {
            let contents = try result.get()
            phase = .open(.none)
            // An ended supervisor would reject the messages, but the next one can send them.
            if isEnding { return ended() }
            session = contents.session
            marks = contents.ring
            if let failure = contents.failure {
                isSessionChanged = true
                owner?.storeFailed(failure)
            }
            owner?.restored(contents.session, contents.marks, contents.messages, last: contents.lastNumber)
            openers.resumeAll(returning: nil)
            proceed()
        } catch {
            failed(error)
        }
    }

    private func failed(_ error: TransportError) {
        phase = .closed
        owner?.storeFailed(error)
        openers.resumeAll(returning: error)
        if isEnding { ended() }
    }

    /// Waits until the store is open, and opens it if that has failed before. The result is the reason why it cannot be
    /// opened, or that it was not open at the deadline.
    func wait(
        opener id: UInt64,
        until deadline: Instant? = nil,
        _ continuation: UnsafeContinuation<TransportError?, Never>
    ) {
        switch phase {
        // After the end, the supervisor knows the reason.
        case .open, .ended: continuation.resume(returning: nil)
        case .closed, .opening:
            if isEnding { return continuation.resume(returning: nil) }
            openers.append(id, continuation)
            if let deadline {
                // If the store is open before, the timer finds nobody.
                _ = runtime.schedule(at: deadline) { [weak self] in
                    self?.openers.resume(id, returning: .storeNotOpenInTime)
                }
            }
            open()
        }
    }

    /// The caller stops waiting.
    func cancel(opener id: UInt64) { openers.resume(id, returning: .cancelledSend) }

    // MARK: Changes

    /// Writes a message. ``OutboxJournalOwner/stored(_:)`` or ``OutboxJournalOwner/notStored(_:_:)`` follows, unless it is
    /// removed before.
    func insert(_ id: MessageID, _ payload: Payload) {
        // As a rule it is the last one. A message that was submitted during the submission of another one comes before that.
        insertions.insert((id, StoredMessage(id, payload).record), at: firstIndex(notBefore: id))
        proceed()
    }

    /// Removes a message that has ended.
    func remove(_ id: MessageID) {
        let index = firstIndex(notBefore: id)
        if index < insertions.count, insertions[index].id == id {
            insertions[index].record = nil
        } else {
            removals.append(StoredMessage.key(id))
            proceed()
        }
    }

    private func firstIndex(notBefore id: MessageID) -> Int {
        var (low, high) = (0, insertions.count)
        while low < high {
            let middle = (low + high) / 2
            if insertions[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Writes that the session has this incarnation, and that the app has processed its messages up to this number.
    func write(incarnation: UInt64, processed: UInt64) {
        guard session != nil else { return }
        session?.incarnation = incarnation
        session?.processed = processed
        isSessionChanged = true
        proceed()
    }

    /// Writes the mark of a processed message from a broker. ``OutboxJournalOwner/storedMarks(_:)`` follows.
    func insert(_ mark: OriginFilter.Mark) {
        marks.append(mark)
        proceed()
    }

    /// Begins the next write, or the end, if nothing else is in progress.
    private func proceed() {
        guard case .open(let write) = phase else { return }
        switch write {
        case .inProgress: return
        case .failed(let retry):
            guard isEnding || !insertions.isEmpty else { return }
            runtime.cancel(timer: retry)
        case .none: break
        }
        var written: [(id: MessageID, record: StoredRecord?)] = []
        let isOnlyRemoval = removesFirst && !removals.isEmpty
        if !isOnlyRemoval { swap(&written, &insertions) }
        removesFirst = false
        let ids = written.compactMap { $0.record == nil ? nil : $0.id }
        if let last = ids.last, session?.reserve(through: last.number) == true { isSessionChanged = true }
        var changes = removals.map { StoreChange.remove($0) } + written.compactMap { $0.record.map { .put($0) } }
        var session: StoredSession?
        if isSessionChanged, !isOnlyRemoval {
            session = self.session
            isSessionChanged = false
            if let session { changes.append(.put(session.record)) }
        }
        let markCount = isOnlyRemoval ? 0 : marks.waitingCount
        if markCount > 0 { changes += marks.changes }
        guard !changes.isEmpty, let queue else {
            phase = .open(.none)
            if isEnding { ended() }
            return
        }
        phase = .open(.inProgress(ids: ids, removals: removals, session: session, marks: markCount))
        removals = []
        let journal = RuntimeBound(self, to: runtime)
        queue.run { [store, changes] in
            let result = Result { () throws(TransportError) in try store.write(changes) }
            journal.execute { journal.value.wrote(result) }
        }
    }

    private func wrote(_ result: Result<Void, TransportError>) {
        guard case .open(.inProgress(let ids, let removed, let session, let markCount)) = phase else { return }
        phase = .open(.none)
        switch result {
        case .success:
            if let session { owner?.storedSession(session.incarnation, processed: session.processed) }
            if markCount > 0 {
                marks.wrote(markCount)
                owner?.storedMarks(markCount)
            }
            guard let last = ids.last else { break }
            lastWritten = max(lastWritten, last)
            let waiting = insertions.first { $0.record != nil }?.id
            owner?.stored(ids, through: waiting.map { min(lastWritten, MessageID($0.number - 1)) } ?? lastWritten)
        case .failure(let error):
            removals = removed + removals
            if session != nil { isSessionChanged = true }
            removesFirst = !ids.isEmpty || session != nil || markCount > 0
            owner?.storeFailed(error)
            if !ids.isEmpty {
                owner?.notStored(ids, error)
            } else if isEnding {
                // The next process sends these messages again.
                return ended()
            } else {
                let retry = runtime.schedule(at: runtime.clock.advanced(by: Self.retryTime)) { [self] in
                    phase = .open(.none)
                    proceed()
                }
                phase = .open(.failed(retry: retry))
            }
        }
        proceed()
    }

    // MARK: The end

    /// Writes what is left, and closes the store.
    func end() {
        guard !isEnding else { return }
        isEnding = true
        openers.resumeAll(returning: nil)
        if case .closed = phase { ended() } else { proceed() }
    }

    private func ended() {
        let isOpen = if case .open = phase { true } else { false }
        phase = .ended(isClosed: false)
        guard isOpen, let queue else { return closed() }
        let journal = RuntimeBound(self, to: runtime)
        queue.run { [store] in
            store.close()
            journal.execute { journal.value.closed() }
        }
    }

    private func closed() {
        phase = .ended(isClosed: true)
        queue = nil
        if let deadline = deadline.take() { runtime.cancel(timer: deadline) }
        closers.resumeAll(returning: ())
    }

    /// Waits until the store is closed, but no longer than ten seconds.
    func wait(closer id: UInt64, _ continuation: UnsafeContinuation<Void, Never>) {
        if case .ended(isClosed: true) = phase { return continuation.resume() }
        closers.append(id, continuation)
        guard deadline == nil else { return }
        deadline = runtime.schedule(at: runtime.clock.advanced(by: Self.endTime)) { [self] in
            deadline = nil
            closers.resumeAll(returning: ())
        }
    }
}

extension TransportError {
    fileprivate static let storeNotOpenInTime = TransportError(
        .timedOut,
        .open,
        "the store of the outbox was not open at the end of the time limit; check the disk, or allow more time"
    )
}
