import Testing

@testable import TransportAPI

/// Other tasks may run between `submit` and the wait for the outcome. They may complete the message.
@Suite("Messages that were submitted")
struct PendingSendsTests {
    private let outgoing = PendingSends()
    private let unknown = SendOutcome.unknown(TransportError(.connectionLost, .open, "lost"))

    private func submit() throws -> MessageID {
        let (id, outcome) = outgoing.submit(Payload([1])) { _, _ in }
        try #require(outcome == nil)
        return id
    }

    /// The identifiers of the undelivered messages.
    private func undelivered(_ listener: MulticastBuffer<Undelivered>.Listener) -> [MessageID] {
        outgoing.undelivered.finish()
        var all: [MessageID] = []
        while case let next?? = outgoing.undelivered.next(listener) { all.append(next.id) }
        return all
    }

    @Test("An outcome that comes before the caller waits for it is returned once")
    func early() async throws {
        let listener = outgoing.undelivered.add(first: nil)
        let id = try submit()
        #expect(outgoing.finished(id, .acknowledged) && !outgoing.finished(id, unknown))
        let outcome = await withUnsafeContinuation { outgoing.wait(sender: id, $0) }
        #expect(outcome == .acknowledged && !outgoing.finished(id, unknown))
        #expect(undelivered(listener).isEmpty)
    }

    @Test("A message that ends after its admission is undelivered, even before its submitter waits")
    func place() async throws {
        let listener = outgoing.undelivered.add(first: nil)
        let id = try submit()
        #expect(!outgoing.stopsWaiting(id))
        outgoing.admitted(id)
        outgoing.finished(id, unknown)
        #expect(undelivered(listener) == [id])
        let place = await withUnsafeContinuation { outgoing.wait(submitter: id, $0) }
        #expect(try place.get() == id)
    }

    @Test("A submitter receives the reason of a refusal that came before it waited")
    func refused() async throws {
        let listener = outgoing.undelivered.add(first: nil)
        let id = try submit()
        #expect(!outgoing.stopsWaiting(id))
        let error = TransportError(.bufferFull, .open, "full")
        outgoing.finished(id, .rejected(error))
        let place = await withUnsafeContinuation { outgoing.wait(submitter: id, $0) }
        #expect(throws: error) { try place.get() }
        #expect(undelivered(listener).isEmpty)
    }
}
