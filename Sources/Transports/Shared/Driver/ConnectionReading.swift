import Protocols
import SocketIO
import TransportAPI

// Reading, in shares: one loop serves many connections, and none may keep it from the others for long. Who has little
// to say is served at once. A connection that fills a whole read, or whose share of the turn is over, is busy: it waits
// in line with all others of its kind (``EventLoop/deferToNextTick(_:)``), and goes there straight away whatever it
// says in the next moments. So do the clients of a server with their first words, for nobody knows them yet.
extension ConnectionDriver {
    /// How much is read at first, in bytes.
    static let firstReadSize = 16 << 10
    private static let leastReadSize = 1 << 10
    /// How long a server works on what had come over a connection that is no more, in nanoseconds.
    private static let patienceWithBroken: Int64 = 1_000_000
    /// For how long a connection stays busy, in nanoseconds.
    private static let busyTime: Int64 = 100_000_000

    /// The share has come that was waited for.
    package func runDeferredWork() {
        isWaitingForShare = false
        shareEnd = loop.lineEnd
        isInShare = true
        pump()
        readWhilePossible()
        isInShare = false
        if flushRequested { tickEnded() }
    }

    /// Whether what comes is seen to in the line: of who is busy, and of a server's clients that are not known yet, or
    /// not any more.
    var mustStandInLine: Bool { isBusy || owner != nil && (!hasSpoken || phase == .draining) }

    /// Whether the far side has yet to say a word, its handshake included, or to end that.
    var isNewcomer: Bool { phase == .opening || phase == .open && lastHeard == 0 }

    var isBusy: Bool { loop.now < busyUntil }

    func waitForShare() {
        guard !isWaitingForShare else { return }
        isWaitingForShare = true
        loop.deferToNextTick(self)
    }

    /// Leaves the rest to a later share. Who has only had what others left of theirs is not known to have much to say.
    private func giveWay(at time: Int64 = .max) {
        if !isInShare || time - loop.now >= EventLoop.share / 2 { busyUntil = loop.now + Self.busyTime }
        waitForShare()
    }

    /// Gives way if this connection has worked for long enough. Outside of the line the first look at the clock only
    /// starts the share, so that whoever has little to do is not asked for the time.
    private func giveWayIfShareIsOver() {
        let time = MonotonicClock.now()
        if shareEnd == 0 { shareEnd = time + EventLoop.share }
        if time >= shareEnd { giveWay(at: time) }
    }

    /// Whether events may be taken from the core. An inbox that nobody empties must not keep the answer to our goodbye from
    /// being read; what else comes then is dropped and counted, as over datagrams.
    var mayRead: Bool {
        (inboxHasRoom && !isPausedForWrites || isClosing || channel.isDatagram) && !isWaitingForShare && !isHeld
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
        if isStalled, isAwaitingAcknowledgement { waitForShare() }
    }

    /// Reads and delivers until the channel is empty, the share is over, or nobody consumes.
    func readWhilePossible() {
        guard !isPumping, !isWaitingForShare else { return }
        // What has come counts before the end that may be behind it.
        if isStalled, mayRead {
            isStalled = false
            pump()
        }
        reading: while isReadable, phase != .closed, mayRead || phase == .draining && !isWaitingForShare {
            if phase == .draining { input.removeAll() }
            borrowInput()
            let room = min(input.writableCount, readSize)
            switch channel.read(into: &input, atMost: readSize) {
            case .bytes(let count):
                lastHeard = loop.now
                if phase == .opening { countRoundTrip() } else { hasSpoken = true }
                if channel.isDrained(afterReading: count, of: room) {
                    isReadable = false
                    if phase != .draining { pump() }
                } else if channel.mayLookLater {
                    if phase != .draining { pump() }
                    waitForPatience()
                    break reading
                } else if isBusy || channel.isDatagram {
                    // A second datagram is not much yet.
                    pumpMuch()
                } else {
                    giveWay()
                }
            case .wouldBlock:
                isReadable = false
            case .end where channel.isDatagram:
                continue
            case .end:
                isReadable = false
                inputEnded()
            case .failed(let error):
                isReadable = false
                readFailed(error)
            }
        }
        returnMemory(&input)
        tellMemory()
    }

    /// Works off a read that has left something behind, looks at how long that took, and reads accordingly much next time.
    private func pumpMuch() {
        let start = MonotonicClock.now()
        if shareEnd == 0 { shareEnd = start + EventLoop.share }
        if phase != .draining { pump() }
        let taken = MonotonicClock.now() - start
        if taken > EventLoop.share {
            readSize = max(readSize / 2, Self.leastReadSize)
        } else if taken < EventLoop.share / 4 {
            readSize = min(readSize * 2, ScratchPool.blockSize)
        }
        if start + taken >= shareEnd, phase != .closed { giveWay(at: start + taken) }
    }

    /// Takes events from the core until it has no more, the share is over, or the inbox is full.
    func pump() {
        guard !isPumping, !isWaitingForShare, phase == .opening || phase == .open else { return }
        isPumping = true
        enterCore()
        var events = 0
        let asked = context.counters.controlWork
        do throws(TransportError) {
            while phase == .opening || phase == .open, mayRead {
                guard let event = try core.next(&input, &context) else { break }
                deliver(event)
                if isMuchWork {
                    isMuchWork = false
                    events |= 3
                }
                events &+= 1
                guard events & 3 == 0, !channel.isDatagram else { continue }
                // Who asks for too much is ended now, and not when its share is over.
                if context.counters.controlWork != controlWork.seen { limitControlRate() }
                if owner != nil, !isInShare, context.counters.controlWork - asked >= Self.controlWorkAtOnce {
                    giveWay()
                } else {
                    giveWayIfShareIsOver()
                }
            }
        } catch {
            end(error)
        }
        isPumping = false
        if context.counters.controlWork != controlWork.seen { limitControlRate() }
        if !inboxHasRoom { isStalled = true }
        if limits.readsOnlyWhileRead, context.output.count / 2 >= limits.writeBuffer { isPausedForWrites = true }
        if channel.isDatagram { input.removeAll() }
        leaveCore()
    }

    /// Takes no more from the far side until ``letGo()``: its handler is at work on what it has said, which is much.
    package func hold() {
        isHeld = true
        if !isInShare { busyUntil = loop.now + Self.busyTime }
    }

    /// Goes on behind all others that wait for their share.
    package func letGo() {
        guard isHeld else { return }
        isHeld = false
        waitForShare()
    }

    /// What was just delivered has been much work, though it may have brought nobody anything: the clock is looked at
    /// before the next.
    package func noteMuchWork() {
        isMuchWork = true
    }

    private func countRoundTrip() {
        if isWaitingForAnswer { statistics.handshakeRoundTrips += 1 }
        isWaitingForAnswer = false
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

    /// A write has failed. The far side may have said why before: what has come counts first, for a while.
    func writeFailed(_ error: SystemError) {
        if !channel.isDatagram {
            // There is no line to wait in any more: only the clock ends this. What is here already gets more time than what is
            // still with the kernel; from its server a client hears all of it.
            isInShare = true
            let end = MonotonicClock.now() + Self.patienceWithBroken
            repeat {
                isWaitingForShare = false
                shareEnd = 0
                pump()
            } while isWaitingForShare && phase == .open && (owner == nil || MonotonicClock.now() < end)
            isWaitingForShare = false
            shareEnd = 0
            while phase == .opening || phase == .open, mayRead {
                borrowInput()
                guard case .bytes = channel.read(into: &input, atMost: readSize) else { break }
                pumpMuch()
            }
            isInShare = false
        }
        broken(by: error)
    }

    /// The connection is no more. A far side that closes it while bytes of ours are unread resets it, though it has
    /// said goodbye: that goodbye is why the connection ended, not the reset behind it (RFC 6455, section 7.1.5).
    private func broken(by error: SystemError) {
        let failure = CloseReason(TransportError(error, phase == .opening ? .handshake : .open))
        end(closeReasonSoFar() ?? failure, abort: true)
    }

    /// Why the connection ends, if one side has said so: this one, or the far one, whose goodbyes have a code. Where
    /// the end of a connection is goodbye enough (plain framing, an MQTT broker), a reset is none.
    func closeReasonSoFar() -> CloseReason? {
        guard phase == .open, !channel.isDatagram else { return nil }
        enterCore()
        guard case .closed(let reason)? = try? core.inputEnded(&context) else { return nil }
        return isClosing || reason.code != nil ? reason : nil
    }
}

// What a far side asks for that brings nobody anything: pings, subscriptions, repetitions, empty frames.
extension ConnectionDriver {
    /// After how many of them, in what has come at once, a server's client goes into the line of the busy. So those who
    /// come anew for each flood do not have a share of their own each time, and it is in the line that they are hung up
    /// on.
    static let controlWorkAtOnce: UInt64 = 4

    /// Counts work that the far side has asked for, beside what its core counts (``CoreCounters/controlWork``).
    package func charge(_ controlWork: UInt64) {
        context.counters.controlWork &+= controlWork
        if !isPumping { limitControlRate() }
    }

    /// Ends a connection whose far side keeps us busy and brings nothing.
    func limitControlRate() {
        guard controlWork.count(context.counters.controlWork, now: loop.now) > limits.controlRate, phase == .open else {
            return
        }
        let error = TransportError.tooMany(
            "more than \(limits.controlRate) pings, subscriptions, repetitions and empty frames came within a second",
            .open
        )
        abandon(CloseReason(.protocolError, code: ClosePayload.policyViolation, text: error.reason, error: error))
    }
}

/// How many controlWork (``CoreCounters/controlWork``) came within the present second.
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
        guard input.writableCount < Self.room else { return }
        if input.capacity < ScratchPool.blockSize, input.count < Self.shortPart {
            var block = takeBlock()
            input.withUnsafeReadableBytes { block.append(contentsOf: $0) }
            input = block
        } else {
            input.reserve(max(Self.room, input.count))
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
        input.removeAll()
        returnMemory(&input)
    }

    /// Tells the owner what this connection keeps in memory: what waits for its rest, for the kernel, and for
    /// the receiver.
    func tellMemory() {
        guard let owner else { return }
        let isAlive = phase == .opening || phase == .open
        let held =
            (isAlive ? core.bufferedBytes : 0) + input.ownMemory + context.output.ownMemory
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
