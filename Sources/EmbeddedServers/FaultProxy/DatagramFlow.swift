import Primitives
import SocketIO
import TransportAPI

/// The datagrams of a client in one direction. It is used on its loop only.
final class DatagramFlow {
    private unowned let client: DatagramClient
    private let path: ProxyPath
    private let way: PathWay
    private var line: DelayLine
    private var random: RandomSource
    private var wakeUp = WakeUp()

    init(_ client: DatagramClient, _ way: PathWay) {
        self.client = client
        self.way = way
        path = client.path
        random = path.random(connection: client.number, way)
        line = DelayLine(path.faults.datagrams)
    }

    var bufferedBytes: Int { line.byteCount }

    /// Adds a datagram at the start of the path.
    func take(_ bytes: [UInt8]) {
        // Each datagram has the same random numbers, also in a black hole.
        let draw = PathModel.Draw(using: &random)
        if path.faults.isBlackHole(way) {
            path.statistics.swallowed += 1
        } else {
            switch line.append(bytes, draw, at: path.loop.now) {
            case .lost: path.statistics.lost += 1
            case .overflow: path.statistics.overflowed += 1
            case .arrives(let passage, let copy):
                if passage.isLate { path.statistics.reordered += 1 }
                if copy != nil { path.statistics.duplicated += 1 }
            }
        }
        pump()
    }

    func faultsChanged() {
        line.change(to: path.faults.datagrams, at: path.loop.now)
        pump()
    }

    func close() {
        line.removeAll()
        wakeUp.cancel(on: path.loop)
    }

    private func pump() {
        while let due = line.nextDue, due <= path.loop.now {
            if path.faults.isBlackHole(way) { path.statistics.swallowed += 1 } else { deliver() }
            line.consume(line.firstCount)
        }
        wakeUp.set(line.nextDue, on: path.loop) { [self] in
            wakeUp.rang()
            pump()
        }
    }

    private func deliver() {
        let count = line.firstCount
        guard line.withFirst({ client.send($0, way) }) == true else {
            path.statistics.overflowed += 1
            return
        }
        path.statistics.delivered(count, way)
        switch way {
        case .toServer: path.statistics.datagramsToServer += 1
        case .toClient: path.statistics.datagramsToClient += 1
        }
    }
}
