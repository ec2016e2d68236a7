import CommandSupport
import Simulation
import Transfers
import TransportAPI

/// The transfers of one schedule, and how they end: the receiver has all bytes, or both sides know why not.
final class StackTransfers {
    /// What an app does with an offer.
    private enum Taking: CaseIterable {
        case atOnce, slowly, never, halfway
    }

    /// The bytes of a transfer.
    private struct Content: AsyncSequence, Sendable {
        typealias Element = [UInt8]

        let seed: Int
        let size: Int
        let piece: Int

        struct AsyncIterator: AsyncIteratorProtocol {
            let content: Content
            var offset = 0

            mutating func next() async -> [UInt8]? {
                guard offset < content.size else { return nil }
                let start = offset
                offset = Swift.min(content.size, start + content.piece)
                return (start..<offset).map { content.byte(at: $0) }
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(content: self) }

        func byte(at offset: Int) -> UInt8 { UInt8(truncatingIfNeeded: seed &+ offset &+ offset >> 8) }
    }

    /// The error of an app that takes only the beginning.
    private struct Enough: Error {}

    private let run: StackRun
    /// The transfers whose receivers refuse them or take only the beginning.
    private var declined: Set<String> = []
    /// How many bytes of each transfer its receiver has got.
    private var received: [String: Int] = [:]
    /// The transfers that have ended well at a receiver. A killed process knows none of them afterwards.
    private var complete: Set<String> = []
    private var isClosing = false

    init(_ run: StackRun) {
        self.run = run
    }

    func closes() { isClosing = true }

    // MARK: Receiving

    /// Takes an offer of the peer.
    func take(_ offer: TransferOffer, at receiver: String, _ process: SimulatedProcess) async throws {
        let words = offer.name.split(separator: "/").compactMap { Int($0) }
        guard words.count == 3, offer.size.map({ $0 == UInt64(words[2]) }) ?? true else {
            return run.checker.fail("\(receiver) got an offer of \(offer.size ?? 0) bytes with the name \(offer.name)")
        }
        let content = Content(seed: words[0] + words[1], size: words[2], piece: 1)
        let taking = run.chance(75) ? Taking.atOnce : Taking.allCases[run.draw(0...Taking.allCases.count - 1)]
        if taking == .never || taking == .halfway { declined.insert(offer.name) }
        if taking == .never { return offer.refuse("no") }
        var count = 0
        for try await bytes in offer.bytes where !process.isDead {
            for byte in bytes {
                if byte != content.byte(at: count) || count >= content.size {
                    return run.checker.fail("\(receiver) got another byte at \(count) of the transfer \(offer.name)")
                }
                count += 1
            }
            received[offer.name] = count
            if taking == .halfway, count > content.size / 2 { throw Enough() }
            if taking == .slowly { await run.world.pause(Int64(run.draw(0...50_000_000))) }
        }
        guard !process.isDead else { return }
        if count != content.size {
            run.checker.fail("\(receiver) got \(count) of \(content.size) bytes of the transfer \(offer.name)")
        }
        if !complete.insert("\(offer.name) at \(receiver)").inserted {
            run.checker.fail("\(receiver) got the transfer \(offer.name) twice")
        }
    }

    // MARK: Sending

    /// Sends the transfers of one app.
    func sendAll(_ count: Int, through transfers: Transfers, of user: Int, _ name: String, _ process: SimulatedProcess)
        async
    {
        for index in 0..<count where !run.isOver && !process.isDead {
            if run.chance(50) { await run.world.pause(Int64(run.draw(0...500_000_000))) }
            await send(index, through: transfers, of: user, name, process)
        }
    }

    private func send(
        _ index: Int,
        through transfers: Transfers,
        of user: Int,
        _ sender: String,
        _ process: SimulatedProcess
    ) async {
        let size = run.draw(0...run.plan.largestTransfer)
        let name = "\(user)/\(index)/\(size)"
        let content = Content(seed: user + index, size: size, piece: run.draw(1...40_000))
        let operation = run.checker.begin("\(sender): transfer \(name)")
        let id = TransferID(high: UInt64(user), low: UInt64(index))
        let transfer = await transfers.send(content, size: run.chance(50) ? UInt64(size) : nil, named: name, id: id)
        let isCancelled = run.chance(10)
        if isCancelled { run.world.after(Int64(run.draw(0...500_000_000))) { transfer.cancel() } }
        var failure: TransferError?
        do throws(TransferError) { try await transfer.finished() } catch { failure = error }
        run.checker.end(operation)
        let end = failure.map { "failed: \($0)" } ?? "has arrived"
        run.world.trace.note(39, index, failure == nil ? 1 : 0, "\(sender): transfer \(name) \(end)")
        guard !process.isDead else { return }
        check(name, failure, of: sender, wasCancelled: isCancelled)
    }

    private func check(_ name: String, _ failure: TransferError?, of sender: String, wasCancelled: Bool) {
        func fail(_ text: String) {
            run.checker.fail("\(sender): transfer \(name) ended in \(failure.map { "\($0)" } ?? "success"): \(text)")
        }
        let isDisturbed = !run.plan.isCalm || run.plan.diskFailures ?? 0 > 0 || run.wasKilled
        switch failure {
        case nil:
            // The receiver's app may learn of the end after the sender.
            let count = received[name] ?? 0
            if "\(count)" != name.split(separator: "/").last ?? "", !run.wasKilled {
                fail("the receiver has got \(count) bytes")
            }
        case .refused(let refusal):
            switch refusal.code {
            case .refused, .failed: if !declined.contains(name) { fail("nobody has refused it") }
            case .stalled: if !isDisturbed, run.plan.endurance == nil { fail("the path works") }
            case .noHandler: if !isClosing, !run.isOver, !run.wasKilled { fail("both apps have a handler") }
            // A receiver that is told nothing of the end of a killed process's transfers keeps them for a time.
            case .tooMany: if !run.wasKilled { fail("an app sends two at a time") }
            default: fail("this cannot be")
            }
        case .noAnswer: if !isDisturbed { fail("the path works") }
        case .cancelled: if !wasCancelled { fail("nobody has cancelled it") }
        case .ended: if run.plan.isCalm, run.plan.decoy == nil, !isClosing, !run.isOver { fail("the session goes on") }
        case .notSent: if run.plan.diskFailures ?? 0 == 0 { fail("the disk works") }
        case .sourceNotRepeatable: if !isDisturbed { fail("nothing was lost") }
        case .file, .source, .tooMany, .inProgress: fail("this cannot be")
        }
    }
}
