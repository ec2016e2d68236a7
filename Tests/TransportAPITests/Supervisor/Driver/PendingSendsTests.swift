import Testing

@testable import TransportAPI

/// Between handing a message in and waiting for it others may run, and end it.
@Suite("Messages that were handed in")
struct PendingSendsTests {
    private let outgoing = PendingSends(nil)
    private let unknown = SendOutcome.unknown(TransportError(.connectionLost, .open, "lost"))

    private func handIn() throws -> MessageID {
        let (id, outcome) = outgoing.handIn(Payload([1])) { _, _ in }
        try #require(outcome == nil)
        return id
    }

    /// What was given back.
    private func undelivered(_ listener: MulticastBuffer<Undelivered>.Listener) -> [MessageID] {
        outgoing.undelivered.finish()
        var all: [MessageID] = []
        while case let next?? = outgoing.undelivered.next(listener) { all.append(next.id) }
        return all
    }

    @Test("tell the end that came before their caller waited for it, once")
    func early() async throws {
        let listener = outgoing.undelivered.add(first: nil)
        let id = try handIn()
        #expect(outgoing.finished(id, .acknowledged) && !outgoing.finished(id, unknown))
        let outcome = await withUnsafeContinuation { outgoing.wait(sender: id, $0) }
        #expect(outcome == .acknowledged && !outgoing.finished(id, unknown))
        #expect(undelivered(listener).isEmpty)
    }

    @Test("are given back when they end after they got their place, though their caller did not wait for it yet")
    func place() async throws {
        let listener = outgoing.undelivered.add(first: nil)
        let id = try handIn()
        #expect(!outgoing.stopsWaiting(id))
        outgoing.accepted(id)
        outgoing.finished(id, unknown)
        #expect(undelivered(listener) == [id])
        let place = await withUnsafeContinuation { outgoing.wait(submitter: id, $0) }
        #expect(try place.get() == id)
    }

    @Test("say why they got no place before their caller waited for one")
    func refused() async throws {
        let listener = outgoing.undelivered.add(first: nil)
        let id = try handIn()
        #expect(!outgoing.stopsWaiting(id))
        let error = TransportError(.bufferFull, .open, "full")
        outgoing.finished(id, .rejected(error))
        let place = await withUnsafeContinuation { outgoing.wait(submitter: id, $0) }
        #expect(throws: error) { try place.get() }
        #expect(undelivered(listener).isEmpty)
    }
}
