import Protocols
import SocketIO
import TransportAPI

/// The part of the loop's time that one connection uses.
struct TimeShare {
    /// When the present budget ends, in nanoseconds of ``MonotonicClock``; 0 until the clock was read.
    var end: Int64 = 0
    /// Until when the connection counts as busy, because it has used a whole budget.
    var busyUntil: Int64 = 0
    /// Whether the connection runs now as one of the deferred handlers.
    var isRunning = false
}

/// What a connection reads, and whether it may.
struct ReadState: ~Copyable {
    /// Why no events are taken from the core.
    struct Pauses: OptionSet {
        let rawValue: UInt8
        /// The inbox is full.
        static let fullInbox = Pauses(rawValue: 1)
        /// The peer does not read so much output that it may not send more.
        static let fullOutput = Pauses(rawValue: 2)
        /// The handler works on what the peer has sent.
        static let handler = Pauses(rawValue: 4)
    }

    /// What has come and was not consumed.
    var input = ByteBuffer()
    /// The channel may have more to read.
    var isReadable = false
    /// How much is read at a time, in bytes: less while it takes long to process.
    var size = 16 << 10
    /// When something came last; 0 before anything has.
    var lastHeard: Int64 = 0
    /// Something has come since the connection was open.
    var hasSpoken = false
    var pauses: Pauses = []
    /// Events are being taken from the core.
    var isPumping = false
    /// The last event was much work: the clock is read before the next one.
    var mustCheckTime = false
    var controlRate = ControlRateMeter()
}

// One loop serves many connections. A connection that has little to read is served at once. One that fills a whole read,
// or exceeds its time budget, is busy for a while: it is continued together with the other busy connections
// (``LoopQueue/deferred``). So are the first bytes of a server's clients, because those are not known yet.
extension ConnectionDriver {
    private static let leastReadSize = 1 << 10
    /// How long a server works on what had come over a connection that is no more, in nanoseconds.
    private static let patienceWithBroken: Int64 = 1_000_000
    /// For how long a connection stays busy, in nanoseconds.
    private static let busyTime: Int64 = 100_000_000

    /// Runs with the other deferred handlers, until their time budget is used up.
    func runShare() {
        share.end = loop.deferredEnd
        share.isRunning = true
        pump()
        readWhilePossible()
        share.isRunning = false
        if writing.flush != .none { flushIfRequested() }
    }

    /// Whether what comes is seen to in the line: of who is busy, and of a server's clients that are not known yet, or
    /// not any more.
    var mustDefer: Bool { isBusy || owner != nil && (!reading.hasSpoken || phase == .draining) }

    /// Whether the peer has yet to say a word, its handshake included, or to end that.
    var isNewcomer: Bool { phase == .opening || phase == .open && reading.lastHeard == 0 }

    var isBusy: Bool { loop.now < share.busyUntil }

    /// Continues in the next tick, with the other deferred handlers.
    func deferWork() {
        loop.add(self, to: .deferred)
    }

    /// Whether the connection waits to be continued.
    var isDeferred: Bool { schedule.contains(.deferred) }

    /// Leaves the rest to a later share. Who has only had what others left of theirs is not known to have much to say.
    private func yield(at time: Int64 = .max) {
        if !share.isRunning || time - loop.now >= EventLoop.timeBudget / 2 {
            share.busyUntil = loop.now + Self.busyTime
        }
        deferWork()
    }

    /// Gives way if this connection has worked for long enough. Outside of the line the first look at the clock only
    /// starts the share, so that whoever has little to do is not asked for the time.
    private func yieldIfBudgetIsOver() {
        let time = MonotonicClock.now()
        if share.end == 0 { share.end = time + EventLoop.timeBudget }
        if time >= share.end { yield(at: time) }
    }

    /// Whether events may be taken from the core. An inbox that nobody empties must not keep the answer to our goodbye from
    /// being read; what else comes then is dropped and counted, as over datagrams.
    var mayRead: Bool {
        (inboxHasRoom && !reading.pauses.contains(.fullOutput) || isClosing || channel.isDatagram) && !isDeferred
            && !reading.pauses.contains(.handler)
    }

    /// Whether another message may be read. An app that waits for an acknowledgement before it takes the next message
    /// must get it, though messages come before it. In a kept session their receipts are withheld meanwhile, so that a
    /// broker soon sends no more.
    var inboxHasRoom: Bool { inbox.hasRoom || isAwaitingAcknowledgement && inbox.hasExcessRoom }

    private var isAwaitingAcknowledgement: Bool {
        acknowledges && !channel.isDatagram && !(waiting.unacknowledged.isEmpty && waiting.blocked.isEmpty)
    }

    /// Reads on if a full inbox had stopped it, because a send now waits for its acknowledgement.
    func readForAcknowledgement() {
        if reading.pauses.contains(.fullInbox), isAwaitingAcknowledgement { deferWork() }
    }

    /// Reads and delivers until the channel is empty, the share is over, or nobody consumes.
    func readWhilePossible() {
        guard !reading.isPumping, !isDeferred else { return }
        // What has come counts before the end that may be behind it.
        if reading.pauses.contains(.fullInbox), mayRead {
            resume(.fullInbox)
            pump()
        }
        reads: while reading.isReadable, phase != .closed, mayRead || phase == .draining && !isDeferred {
            if phase == .draining { reading.input.removeAll() }
            borrowInput()
            let room = min(reading.input.writableCount, reading.size)
            switch channel.read(into: &reading.input, atMost: reading.size) {
            case .bytes(let count):
                reading.lastHeard = loop.now
                if phase == .opening { countRoundTrip() } else { reading.hasSpoken = true }
                if channel.isDrained(afterReading: count, of: room) {
                    reading.isReadable = false
                    if phase != .draining { pump() }
                } else if channel.mayLookLater {
                    if phase != .draining { pump() }
                    runAtLowPriority()
                    break reads
                } else if isBusy || channel.isDatagram {
                    // A second datagram is not much yet.
                    pumpMuch()
                } else {
                    yield()
                }
            case .wouldBlock:
                reading.isReadable = false
            case .end where channel.isDatagram:
                continue
            case .end:
                reading.isReadable = false
                inputEnded()
            case .failed(let error):
                reading.isReadable = false
                readFailed(error)
            }
        }
        returnMemory(&reading.input)
        tellMemory()
    }

    /// Works off a read that has left something behind, looks at how long that took, and reads accordingly much next time.
    private func pumpMuch() {
        let start = MonotonicClock.now()
        if share.end == 0 { share.end = start + EventLoop.timeBudget }
        if phase != .draining { pump() }
        let taken = MonotonicClock.now() - start
        if taken > EventLoop.timeBudget {
            reading.size = max(reading.size / 2, Self.leastReadSize)
        } else if taken < EventLoop.timeBudget / 4 {
            reading.size = min(reading.size * 2, ScratchPool.blockSize)
        }
        if start + taken >= share.end, phase != .closed { yield(at: start + taken) }
    }

    /// Takes events from the core until it has no more, the share is over, or the inbox is full.
    func pump() {
        guard !reading.isPumping, !isDeferred, phase == .opening || phase == .open else { return }
        reading.isPumping = true
        enterCore()
        var events = 0
        let asked = context.counters.controlWork
        do throws(TransportError) {
            while phase == .opening || phase == .open, mayRead {
                guard let event = try core.next(&reading.input, &context) else { break }
                deliver(event)
                if reading.mustCheckTime {
                    reading.mustCheckTime = false
                    events |= 3
                }
                events &+= 1
                guard events & 3 == 0, !channel.isDatagram else { continue }
                // Who asks for too much is ended now, and not when its share is over.
                if context.counters.controlWork != reading.controlRate.seen { limitControlRate() }
                if owner != nil, !share.isRunning, context.counters.controlWork - asked >= Self.controlWorkAtOnce {
                    yield()
                } else {
                    yieldIfBudgetIsOver()
                }
            }
        } catch {
            end(error)
        }
        reading.isPumping = false
        if context.counters.controlWork != reading.controlRate.seen { limitControlRate() }
        if !inboxHasRoom { reading.pauses.insert(.fullInbox) }
        if limits.readsOnlyWhileRead, context.output.count / 2 >= limits.writeBuffer {
            reading.pauses.insert(.fullOutput)
        }
        if channel.isDatagram { reading.input.removeAll() }
        leaveCore()
    }

    /// Takes no more from the peer until ``letGo()``: its handler is at work on what it has said, which is much.
    package func hold() {
        reading.pauses.insert(.handler)
        if !share.isRunning { share.busyUntil = loop.now + Self.busyTime }
    }

    /// Goes on behind all others that wait for their share.
    package func letGo() {
        guard reading.pauses.contains(.handler) else { return }
        reading.pauses.remove(.handler)
        deferWork()
    }

    /// Ends a pause. Until now, received bytes may not have been read.
    func resume(_ pause: ReadState.Pauses) {
        reading.pauses.remove(pause)
        noteUnread()
    }

    /// What was just delivered has been much work, though it may have brought nobody anything: the clock is looked at
    /// before the next.
    package func noteMuchWork() {
        reading.mustCheckTime = true
    }

    private func countRoundTrip() {
        if writing.isUnanswered { statistics.handshakeRoundTrips += 1 }
        writing.isUnanswered = false
    }

    private func inputEnded() {
        guard phase != .draining else { return close(abort: false) }
        guard phase != .closed else { return }
        enterCore()
        do throws(TransportError) {
            deliver(try core.inputEnded(&context))
        } catch {
            end(error)
        }
        leaveCore()
    }

    private func readFailed(_ error: SystemError) {
        let isTransient = channel.isDatagram && error.number != ECONNREFUSED
        if !isTransient { broken(by: error) }
    }

    /// A write has failed. The peer may have said why before: what has come counts first, for a while.
    func writeFailed(_ error: SystemError) {
        if !channel.isDatagram {
            // There is no line to wait in any more: only the clock ends this. What is here already gets more time than what is
            // still with the kernel; from its server a client hears all of it.
            share.isRunning = true
            let end = MonotonicClock.now() + Self.patienceWithBroken
            repeat {
                schedule.remove(.deferred)
                share.end = 0
                pump()
            } while isDeferred && phase == .open && (owner == nil || MonotonicClock.now() < end)
            schedule.remove(.deferred)
            share.end = 0
            while phase == .opening || phase == .open, mayRead {
                borrowInput()
                guard case .bytes = channel.read(into: &reading.input, atMost: reading.size) else { break }
                pumpMuch()
            }
            share.isRunning = false
        }
        broken(by: error)
    }

    /// The connection is no more. A peer that closes it while bytes of ours are unread resets it, though it has
    /// said goodbye: that goodbye is why the connection ended, not the reset behind it (RFC 6455, section 7.1.5).
    private func broken(by error: SystemError) {
        let failure = CloseReason(TransportError(error, phase == .opening ? .handshake : .open))
        end(closeReasonSoFar() ?? failure, abort: true)
    }

    /// Why the connection ends, if one side has said so: this one, or the peer, whose goodbyes have a code. Where
    /// the end of a connection is goodbye enough (plain framing, an MQTT broker), a reset is none.
    func closeReasonSoFar() -> CloseReason? {
        guard phase == .open, !channel.isDatagram else { return nil }
        enterCore()
        guard case .closed(let reason)? = try? core.inputEnded(&context) else { return nil }
        return isClosing || reason.code != nil ? reason : nil
    }
}

// What a peer asks for that brings nobody anything: pings, subscriptions, repetitions, empty frames.
extension ConnectionDriver {
    /// After how many of them, in what has come at once, a server's client goes into the line of the busy. So those who
    /// come anew for each flood do not have a share of their own each time, and it is in the line that they are hung up
    /// on.
    static let controlWorkAtOnce: UInt64 = 4

    /// Counts work that the peer has asked for, beside what its core counts (``CoreCounters/controlWork``).
    package func charge(_ controlWork: UInt64) {
        context.counters.controlWork &+= controlWork
        if !reading.isPumping { limitControlRate() }
    }

    /// Ends a connection whose peer keeps us busy and brings nothing.
    func limitControlRate() {
        guard reading.controlRate.count(context.counters.controlWork, now: loop.now) > limits.controlRate,
            phase == .open
        else {
            return
        }
        let error = TransportError.tooMany(
            "more than \(limits.controlRate) pings, subscriptions, repetitions and empty frames came within a second",
            .open
        )
        abandon(CloseReason(.protocolError, code: ClosePayload.policyViolation, text: error.reason, error: error))
    }
}

/// How much control work (``CoreCounters/controlWork``) came within the present second.
struct ControlRateMeter {
    /// How many have come in all.
    private(set) var seen: UInt64 = 0
    private var before: UInt64 = 0
    private var start = Int64.min

    /// Takes the count as it stands now; how many of them came in this second.
    mutating func count(_ total: UInt64, now: Int64) -> UInt64 {
        if start == .min || now - start >= 1_000_000_000 {
            start = now
            before = seen
        }
        seen = total
        return total - before
    }
}

// Blocks for reading and writing, which all connections of a loop share, so that an idle connection owns none.
extension ConnectionDriver {
    /// The least room to read or write into, in bytes.
    static let room = 4096

    /// Makes sure that there is memory to write to, with some room. A message reserves its own length, and a few bytes
    /// behind much output are no reason to double it.
    func borrowMemory(_ buffer: inout ByteBuffer) {
        if buffer.capacity == 0 {
            buffer = takeBlock()
        } else if buffer.writableCount < Self.room {
            buffer.reserve(Self.room)
        }
    }

    /// Makes sure that there is memory to read into. The beginning of a frame that was kept in memory that fits it goes
    /// to the front of a whole block once that memory is full, so that much is read behind it; one that is too long for
    /// that grows where it is, and is read in ever larger parts.
    func borrowInput() {
        guard reading.input.writableCount < Self.room else { return }
        if reading.input.capacity < ScratchPool.blockSize, reading.input.count < Self.shortPart {
            var block = takeBlock()
            reading.input.withUnsafeReadableBytes { block.append(contentsOf: $0) }
            reading.input = block
        } else {
            reading.input.reserve(max(Self.room, reading.input.count))
        }
    }

    private func takeBlock() -> ByteBuffer {
        ByteBuffer(adopting: loop.takeBlock(), capacity: ScratchPool.blockSize)
    }

    /// Less than this does not keep a block, in bytes.
    private static let shortPart = ScratchPool.blockSize / 4

    /// Gives the block back if nothing is in it. What is left of much, or waits for the rest of its frame, moves to memory that
    /// fits it, with as much room again: it moves once more only after half of it has gone, or the room is used up.
    func returnMemory(_ buffer: inout ByteBuffer) {
        if buffer.isEmpty {
            if let block = buffer.surrender(size: ScratchPool.blockSize) {
                loop.giveBlock(block)
            } else {
                buffer = ByteBuffer()
            }
        } else if buffer.capacity >= ScratchPool.blockSize, buffer.count < buffer.capacity / 4 {
            var small = ByteBuffer(capacity: buffer.count * 2)
            buffer.withUnsafeReadableBytes { small.append(contentsOf: $0) }
            buffer.removeAll()
            if let block = buffer.surrender(size: ScratchPool.blockSize) { loop.giveBlock(block) }
            buffer = small
        }
    }

    /// Lets go of what has come in part, since nothing more is read. The input of a session over a shared socket is
    /// lent for one datagram.
    func letGoOfParts() {
        core.connectionEnded()
        guard !channel.isDatagram else { return }
        reading.input.removeAll()
        returnMemory(&reading.input)
    }

    /// Tells the owner what this connection keeps in memory: what waits for its rest, for the kernel, and for
    /// the receiver.
    func tellMemory() {
        guard let owner else { return }
        let isAlive = phase == .opening || phase == .open
        let held =
            (isAlive ? core.bufferedBytes : 0) + reading.input.ownMemory + context.output.ownMemory
            + (phase == .closed ? 0 : inbox.bufferedBytes)
        guard held != bufferedBytes else { return }
        let change = held - bufferedBytes
        bufferedBytes = held
        owner.memoryChanged(by: change)
    }
}

extension ByteBuffer {
    /// How much memory a connection keeps by this buffer: all of it, be it filled or not. Of a block, which it shares
    /// with the others of its loop, it is what waits there.
    fileprivate var ownMemory: Int { capacity == ScratchPool.blockSize ? count : capacity }
}
