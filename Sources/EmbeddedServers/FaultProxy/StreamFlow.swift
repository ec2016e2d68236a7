import SocketIO
import TransportAPI

/// One way of a connection: what is read from its source is written to its sink when it has travelled the path. Lives on
/// its loop.
///
/// While it holds as much as it may, the source is not read, and its peer gets to wait.
final class StreamFlow {
    private enum Ending {
        /// FIN; it stays behind the bytes.
        case finish
        /// RST; bytes that the sink has no room for are lost, as they would be in its kernel.
        case reset
    }

    private unowned let connection: StreamConnection
    private let path: ProxyPath
    private let way: PathWay
    private let source: StreamSocket
    private let sink: StreamSocket
    private var line = DelayLine(keepsOrder: true)
    private var bucket = TokenBucket()
    private var random: RandomSource
    private var ending: (how: Ending, entered: Int64)?
    private var wakeUp = WakeUp()
    private var isReadable = true
    private var isWritable = true
    private var isClosed = false
    /// Whether the end has been handed on to the sink.
    private(set) var isOver = false
    /// Whether nothing more will come from the source.
    private(set) var sourceEnded = false

    init(_ connection: StreamConnection, _ way: PathWay, from source: StreamSocket, to sink: StreamSocket) {
        self.connection = connection
        self.way = way
        self.source = source
        self.sink = sink
        path = connection.path
        random = path.random(connection: connection.number, way)
        bucket.set(bytesPerSecond: path.faults.bytesPerSecond, now: path.loop.now)
    }

    var bytesHeld: Int { line.byteCount }

    func sourceIsReadable() {
        isReadable = true
        pump()
    }

    func sinkIsWritable() {
        isWritable = true
        pump()
    }

    func faultsChanged() {
        line.reschedule(path.faults)
        bucket.set(bytesPerSecond: path.faults.bytesPerSecond, now: path.loop.now)
        pump()
    }

    /// Reads no more, and ends behind what it holds.
    func finish() {
        if ending == nil { end(.finish) }
        pump()
    }

    /// The source's connection broke.
    func sourceBroke() {
        source.close(abort: true)
        sourceEnded = true
        isOver = false
        end(.reset)
        pump()
    }

    /// The sink is gone: what is on its way to it is lost.
    func sinkBroke() {
        line.removeAll()
        isOver = true
    }

    func close() {
        isClosed = true
        line.removeAll()
        wakeUp.cancel(on: path.loop)
    }

    /// Reads and drops what still comes.
    func drain() {
        while !sourceEnded, isReadable {
            switch read(atMost: ScratchPool.blockSize, { _ in }) {
            case .bytes: break
            case .wouldBlock: isReadable = false
            case .end, .failed: sourceEnded = true
            }
        }
    }

    private func pump() {
        guard !isClosed else { return }
        deliver()
        // After so many rounds others get their turn.
        var rounds = 16
        while isReadable, !isClosed, !isOver, ending == nil, line.room > 0, rounds > 0 {
            fill()
            deliver()
            rounds -= 1
        }
        guard !isClosed else { return }
        wakeUp.set(rounds == 0 ? path.loop.now : nextWakeUp(), on: path.loop) { [self] in
            wakeUp.rang()
            pump()
        }
    }

    private func nextWakeUp() -> Int64? {
        guard !isOver, !path.faults.isBlackHole(way) else { return nil }
        let reset = ending?.how == .reset ? endingDue : nil
        guard let due = line.nextDue else { return endingDue }
        guard isWritable else { return reset }
        return min(reset ?? .max, max(due, bucket.nextTime(for: line.firstCount, now: path.loop.now)))
    }

    // MARK: In

    private func fill() {
        let now = path.loop.now
        let room = min(line.room, ScratchPool.blockSize)
        let result = read(atMost: room) { bytes in
            let spread = Double.random(in: 0..<1, using: &random)
            line.append(Array(bytes), now: now, spread: spread, path.faults)
        }
        switch result {
        case .bytes(let count):
            if source.isDrained(afterReading: count, of: room) { isReadable = false }
        case .wouldBlock:
            isReadable = false
        case .end:
            sourceEnded = true
            end(.finish)
        case .failed:
            connection.broke(sourceOf: way)
        }
    }

    private func read(atMost limit: Int, _ body: (UnsafeRawBufferPointer) -> Void) -> IOResult {
        let block = path.loop.takeBlock()
        defer { path.loop.giveBlock(block) }
        let result = source.read(into: UnsafeMutableRawBufferPointer(start: block, count: limit))
        if case .bytes(let count) = result { body(UnsafeRawBufferPointer(start: block, count: count)) }
        return result
    }

    private func end(_ how: Ending) {
        ending = (how, path.loop.now)
    }

    private var endingDue: Int64? { ending.map { $0.entered + path.faults.transit(1) } }

    // MARK: Out

    private func deliver() {
        let now = path.loop.now
        guard !isClosed, !isOver, !path.faults.isBlackHole(way) else { return }
        while isWritable, let due = line.nextDue, due <= now {
            let allowance = bucket.allowance(now: now)
            guard allowance > 0, let result = line.withFirst(upTo: allowance, { sink.write($0) }) else { break }
            switch result {
            case .bytes(let count):
                line.consume(count)
                bucket.spend(count)
                path.statistics.delivered(count, way)
            case .wouldBlock:
                isWritable = false
            case .end, .failed:
                return connection.broke(sinkOf: way)
            }
        }
        guard let ending, let due = endingDue, due <= now else { return }
        switch ending.how {
        case .reset:
            connection.close(abort: true)
        case .finish where line.isEmpty:
            sink.shutdownWriting()
            isOver = true
            connection.flowEnded()
        case .finish: break
        }
    }
}
