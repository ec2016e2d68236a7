import Primitives
import SocketIO

/// One descriptor of the simulated kernel.
class SimulatedSocket {
    let kernel: SimulatedKernel
    let process: SimulatedProcess
    var descriptor: Int32 = -1
    var poller: SimulatedPoller?
    var local: SimulatedAddress?

    init(_ kernel: SimulatedKernel, _ process: SimulatedProcess) {
        self.kernel = kernel
        self.process = process
    }

    /// The readiness that a poller would report now.
    func readiness(tellsHalfClose: Bool) -> Readiness { [] }

    /// Called when the last descriptor is closed, by the program or because the process was killed.
    func closed(abort: Bool) {}

    func changed() {
        poller?.changed(descriptor)
    }
}

/// One direction of a connection.
final class Pipe {
    /// The bytes in the sender's kernel, and those in the receiver's.
    var unsent = ByteQueue()
    var arrived = ByteQueue()
    let sendRoom: Int
    let receiveRoom: Int
    /// Whether bytes or the end are in flight.
    var isMoving = false
    /// The path, whose rate passes one piece after the other.
    var path = PathModel()
    /// Whether a call of the sender found too little room, so that a poller reports when there is room again.
    var isFull = false
    /// Whether the sender's half is closed; whether the receiver's kernel has received the end.
    var isEnded = false
    var endArrived = false

    init(sendRoom: Int, receiveRoom: Int) {
        self.sendRoom = sendRoom
        self.receiveRoom = receiveRoom
    }

    /// As on Linux, a socket is writable when a third of its buffer is free.
    var isWritable: Bool { unsent.count < sendRoom && unsent.count * 3 <= sendRoom * 2 }
}

/// A TCP socket: a new one, a listening one, or one end of a connection.
final class SimulatedStream: SimulatedSocket {
    enum Phase { case new, listening, connecting, open, broken }

    var phase = Phase.new
    // State of a listener.
    var backlog = 0
    var waiting: [SimulatedStream] = []
    // State of one end of a connection.
    var peerAddress: SimulatedAddress?
    weak var peer: SimulatedStream?
    /// The two directions, which both ends share.
    var incoming: Pipe?
    var outgoing: Pipe?
    /// The error that the next call returns.
    var pending: Int32 = 0
    var isClosed = false
    var lingersNot = false
    /// How many bytes the peer had not received when the connection broke.
    var unacknowledgedAtEnd = 0
    /// Keeps a closed end alive until its bytes have left.
    private var orphan: SimulatedStream?

    override func readiness(tellsHalfClose: Bool) -> Readiness {
        switch phase {
        case .new, .connecting: return []
        case .listening: return waiting.isEmpty ? [] : .read
        case .broken: return [.read, .write, .hangUp]
        case .open:
            guard let incoming, let outgoing else { return [] }
            var result: Readiness = []
            if !incoming.arrived.isEmpty || incoming.endArrived { result.insert(.read) }
            if outgoing.isWritable { result.insert(.write) }
            if incoming.endArrived, tellsHalfClose || outgoing.isEnded { result.insert(.hangUp) }
            return result
        }
    }

    // MARK: Connecting

    /// Sends the SYN. If the listener's backlog is full, sends it again after a pause.
    func connect(to address: SimulatedAddress, attempt: Int = 0) {
        peerAddress = address
        phase = .connecting
        kernel.travel(from: process.host, to: address.host) { [weak self] in self?.reached(address, attempt) }
    }

    private func reached(_ address: SimulatedAddress, _ attempt: Int) {
        guard phase == .connecting, !isClosed else { return }
        guard let listener = kernel.listener(at: address) else {
            return answer { $0.broke(111) }  // ECONNREFUSED
        }
        guard listener.waiting.count < max(1, listener.backlog) else {
            guard attempt < 6 else { return answer { $0.broke(110) } }  // ETIMEDOUT
            let pause = Int64(1_000_000_000) << attempt
            return kernel.schedule(after: pause) { [weak self] in
                guard let self, phase == .connecting, !isClosed else { return }
                connect(to: address, attempt: attempt + 1)
            }
        }
        let end = SimulatedStream(kernel, listener.process)
        end.local = address
        end.peerAddress = local
        end.phase = .open
        let (there, back) = (kernel.drawPipe(), kernel.drawPipe())
        (outgoing, incoming) = (there, back)
        (end.incoming, end.outgoing) = (there, back)
        (end.peer, peer) = (self, end)
        listener.waiting.append(end)
        kernel.trace.note(2, Int(address.port), listener.waiting.count, "  arrives at \(address)")
        listener.changed()
        answer { client in
            guard client.phase == .connecting else { return }
            client.phase = .open
            client.changed()
            client.move()
        }
    }

    private func answer(_ action: @escaping (SimulatedStream) -> Void) {
        guard let peerAddress else { return }
        kernel.travel(from: peerAddress.host, to: process.host) { [weak self] in
            guard let self, !isClosed else { return }
            action(self)
        }
    }

    // MARK: Bytes

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        if pending != 0 { return -Int(takePending()) }
        guard phase == .open, let outgoing, !outgoing.isEnded else { return phase == .connecting ? -11 : -32 }
        let room = outgoing.sendRoom - outgoing.unsent.count
        guard room > 0 else {
            outgoing.isFull = true
            return -11
        }
        let count = min(room, bytes.count)
        outgoing.unsent.append(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        // A short count means that there is no more room (epoll(7), question 9).
        if count < bytes.count { outgoing.isFull = true }
        move()
        return count
    }

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let incoming else {
            return phase == .broken ? -Int(takePending(orElse: 107)) : phase == .connecting ? -11 : -107
        }
        let count = incoming.arrived.take(into: buffer)
        if count > 0 {
            peer?.move()
            return count
        }
        if pending != 0 { return -Int(takePending()) }
        if incoming.endArrived || phase == .broken { return 0 }
        return -11
    }

    func takePending(orElse other: Int32 = 0) -> Int32 {
        defer { pending = 0 }
        return pending != 0 ? pending : other
    }

    /// Starts to move unsent bytes if the peer has room and nothing is moving yet.
    func move() {
        guard phase == .open, let outgoing, let peerAddress, !outgoing.isMoving, !outgoing.endArrived else { return }
        let hasRoom = outgoing.arrived.count < outgoing.receiveRoom || peer == nil || peer?.isClosed == true
        guard outgoing.unsent.isEmpty ? outgoing.isEnded : hasRoom else { return }
        outgoing.isMoving = true
        // Captured strongly, because the kernel still delivers bytes after the program has closed the socket.
        let (here, there, isFree) = (process.host, peerAddress.host, outgoing.path.freeAt <= kernel.time)
        guard !isFree else { return kernel.travel(from: here, to: there) { self.arrive() } }
        // These bytes follow others on the path, so only its rate delays them.
        kernel.schedule(after: outgoing.path.freeAt - kernel.time) { [kernel] in
            guard kernel.path(here, there).cutUntil > kernel.time else { return self.arrive() }
            kernel.travel(from: here, to: there) { self.arrive() }
        }
    }

    private func arrive() {
        guard let outgoing else { return }
        outgoing.isMoving = false
        guard phase == .open else { return }
        guard let peer, !peer.isClosed else {
            // The peer is closed. It answers bytes with a reset, but not an end.
            if outgoing.isEnded { outgoing.endArrived = true }
            if !outgoing.unsent.isEmpty {
                outgoing.unsent.removeAll()
                answer { $0.broke(104) }  // ECONNRESET
            }
            return forgetIfDone()
        }
        if peer.phase == .broken { return }
        let room = max(0, outgoing.receiveRoom - outgoing.arrived.count)
        let path = kernel.path(process.host, peer.process.host)
        var count = min(outgoing.unsent.count, room, path.segment)
        if path.parameters.bytesPerSecond != nil { count = min(count, 1448) }
        outgoing.path.parameters = path.parameters
        _ = outgoing.path.pass(count, at: kernel.time)
        if count > 0 { outgoing.unsent.move(count, to: &outgoing.arrived) }
        kernel.damage(count, of: &outgoing.arrived, between: process.host, peer.process.host)
        let ends = outgoing.isEnded && outgoing.unsent.isEmpty && (count == 0 || kernel.drawTogether())
        if ends { outgoing.endArrived = true }
        if count > 0 || ends {
            kernel.trace.note(
                3,
                count,
                ends ? 1 : 0,
                "  \(count) bytes\(ends ? " and the end" : "") for \(peer.local.map(String.init(describing:)) ?? "?")"
            )
            peer.changed()
        }
        if outgoing.isFull, outgoing.isWritable {
            outgoing.isFull = false
            if !isClosed { changed() }
        }
        if ends { peer.forgetIfDone() }
        forgetIfDone()
        move()
    }

    // MARK: Ending

    func shutdownWriting() -> Int32 {
        guard phase == .open, let outgoing else { return -107 }
        guard !outgoing.isEnded else { return 0 }
        outgoing.isEnded = true
        move()
        // Linux wakes the pollers of a socket that is shut down.
        changed()
        return 0
    }

    override func closed(abort: Bool) {
        isClosed = true
        switch phase {
        case .new, .broken: break
        case .connecting: phase = .broken
        case .listening:
            kernel.stopListening(self)
            for end in waiting { end.closed(abort: true) }
            waiting = []
        case .open:
            guard !abort, !lingersNot, incoming?.arrived.isEmpty ?? true else { return reset() }
            orphan = self
            outgoing?.isEnded = true
            move()
            forgetIfDone()
        }
    }

    /// Discards the unsent bytes and sends a reset to the peer.
    func reset() {
        outgoing?.unsent.removeAll()
        phase = .broken
        orphan = nil
        guard let peerAddress, let peer else { return }
        kernel.travel(from: process.host, to: peerAddress.host) { peer.broke(104) }
    }

    /// Ends the connection because the peer has reset it, or because it could not be opened.
    func broke(_ error: Int32) {
        guard phase == .open || phase == .connecting else { return }
        kernel.trace.note(4, Int(error), 0, "  \(local.map(String.init(describing:)) ?? "?") broke: \(error)")
        phase = .broken
        pending = error
        unacknowledgedAtEnd = outgoing?.unsent.count ?? 0
        outgoing?.unsent.removeAll()
        if kernel.drawTogether() { incoming?.arrived.removeAll() }
        orphan = nil
        if !isClosed { changed() }
    }

    private func forgetIfDone() {
        guard isClosed, let outgoing, outgoing.endArrived || peer == nil else { return }
        orphan = nil
    }

    /// Ends the socket because its host has lost power. The peer receives nothing more, not even an end.
    func vanish() {
        phase = .broken
        pending = 104
        orphan = nil
        changed()
    }
}

/// A UDP socket.
final class SimulatedDatagrams: SimulatedSocket {
    private struct Datagram {
        var bytes: [UInt8]
        var sender: SimulatedAddress
    }

    private var queue: [Datagram] = []
    private var queuedBytes = 0
    private let room: Int
    private var isFull = false
    var isVanished = false
    var connected: SimulatedAddress?
    var pending: Int32 = 0
    /// How many datagrams it has sent while it was connected, and how many have come for it.
    private var sentCount = 0
    private var receivedCount = 0

    override init(_ kernel: SimulatedKernel, _ process: SimulatedProcess) {
        room = kernel.drawDatagramRoom()
        super.init(kernel, process)
    }

    override func readiness(tellsHalfClose: Bool) -> Readiness {
        var result: Readiness = isFull ? [] : .write
        if !queue.isEmpty || pending != 0 { result.insert(.read) }
        if pending != 0 { result.formUnion([.read, .write, .hangUp]) }
        return result
    }

    func send(_ bytes: UnsafeRawBufferPointer, to address: SimulatedAddress?) -> Int {
        if pending != 0 { return -Int(takePending()) }
        guard let target = address ?? connected else { return -89 }
        guard bytes.count <= 65_507 else { return -90 }
        if isVanished { return -101 }
        if kernel.drawDatagramFull() {
            isFull = true
            kernel.schedule(after: kernel.drawPause()) { [weak self] in
                self?.isFull = false
                self?.changed()
            }
            return -11
        }
        if local == nil { local = kernel.freeAddress(process, isDatagram: true) }
        guard let sender = local else { return -98 }
        let whole = Datagram(bytes: Array(bytes), sender: sender)
        kernel.onDatagram?(bytes)
        if connected != nil {
            sentCount += 1
            if kernel.isLost(sent: sentCount - 1) { return bytes.count }
        }
        kernel.travelAsDatagram(bytes.count, from: process.host, to: target.host) {
            [kernel, host = process.host, weak self] in
            guard let receiver = kernel.datagrams(at: target) else {
                // An ICMP error, which only a connected socket receives.
                guard let self, connected == target else { return }
                kernel.travel(from: target.host, to: process.host) { [weak self] in
                    self?.pending = 111
                    self?.changed()
                }
                return
            }
            var datagram = whole
            kernel.damage(&datagram.bytes, between: host, target.host)
            receiver.arrive(datagram)
        }
        return bytes.count
    }

    private func arrive(_ datagram: Datagram) {
        if connected != nil {
            receivedCount += 1
            if kernel.isLost(received: receivedCount - 1) { return }
            if pending == 0, kernel.drawPathError() { pending = 113 }  // EHOSTUNREACH
        }
        guard connected.map({ $0 == datagram.sender }) ?? true, queuedBytes + datagram.bytes.count <= room else {
            return
        }
        queue.append(datagram)
        queuedBytes += datagram.bytes.count
        kernel.trace.note(
            5,
            datagram.bytes.count,
            Int(datagram.sender.port),
            "  datagram of \(datagram.bytes.count) for \(local.map(String.init(describing:)) ?? "?")"
        )
        changed()
    }

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> (count: Int, sender: SimulatedAddress?) {
        if pending != 0 { return (-Int(takePending()), nil) }
        guard !queue.isEmpty else { return (-11, nil) }
        let datagram = queue.removeFirst()
        queuedBytes -= datagram.bytes.count
        let count = min(buffer.count, datagram.bytes.count)
        datagram.bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        return (count, datagram.sender)
    }

    func takePending() -> Int32 {
        defer { pending = 0 }
        return pending
    }

    override func closed(abort: Bool) {
        kernel.unbind(self)
    }
}
