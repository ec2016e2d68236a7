import CSocketIO
import Primitives
import SocketIO

/// The sockets, the clock and the random numbers of all simulated processes. It answers the system calls of the
/// simulating thread (`SystemCalls.h`).
///
/// The clock moves only by the cost of each call and by ``advance(to:)``.
package final class SimulatedKernel {
    /// The ranges and the chances from which each connection and each call draws.
    package struct Conditions {
        /// Sizes of the buffers of each connection.
        package var buffers: ClosedRange<Int> = 512...65_536
        /// The size of a datagram socket's buffer.
        package var datagramBuffers: ClosedRange<Int> = 65_536...1 << 20
        /// How many of a hundred system calls are interrupted by a signal.
        package var interrupted = 1
        /// How many of a hundred datagrams meet a full queue.
        package var datagramsFull = 0
        /// How many of a hundred datagrams reach a connected socket right after an error of its path, such as an ICMP message.
        package var pathErrors = 0
        /// The numbers of the datagrams of each connected socket, from 0, that are lost: those that it sends, and those that
        /// are sent to it.
        package var lostDatagrams: (sent: Set<Int>, received: Set<Int>) = ([], [])
        /// How many of a hundred times the end arrives together with the last bytes. The same chance decides whether a
        /// reset discards unread bytes.
        package var together = 50
        /// The most descriptors that one wait of a poller reports.
        package var reports = 256
        /// The time that a system call takes, in nanoseconds.
        package var callTime: Int64 = 500

        package init() {}
    }

    private(set) package var time: Int64 = 1_000_000_000_000
    package var conditions = Conditions()
    package let trace: Trace
    package private(set) var calls = 0
    /// The process whose program runs now.
    var current: SimulatedProcess
    /// Called with each datagram that is sent.
    package var onDatagram: ((UnsafeRawBufferPointer) -> Void)?
    private var random: SimulationRandom
    private var entropy: SimulationRandom
    private var events = KernelEvents()
    private var sockets: [SimulatedSocket?] = []
    private var free: [Int32] = []
    private var listeners: [SimulatedAddress: SimulatedStream] = [:]
    private var bound: [SimulatedAddress: SimulatedDatagrams] = [:]
    private var paths: [UInt64: SimulatedPath] = [:]
    /// The datagrams from one host to another.
    private var datagramPaths: [UInt64: PathModel] = [:]
    /// The actions that wait until a path is no longer cut.
    private var held: [(path: UInt64, action: () -> Void)] = []
    private var table = UnsafeMutablePointer<csocketio_kernel>.allocate(capacity: 1)

    package init(seed: UInt64, trace: Trace) {
        random = SimulationRandom(seed: seed, stream: 1)
        entropy = SimulationRandom(seed: seed, stream: 2)
        self.trace = trace
        current = SimulatedProcess(name: "none", host: 0, nextPort: 0)
        table.initialize(to: Self.functions(Unmanaged.passUnretained(self).toOpaque()))
    }

    deinit {
        table.deallocate()
    }

    /// Makes the calling thread use this kernel until ``detach()``.
    package func attach() {
        csocketio_simulate(table)
    }

    package func detach() {
        csocketio_simulate(nil)
    }

    // MARK: Time

    /// Calls `action` after `delay` nanoseconds.
    package func schedule(after delay: Int64, _ action: @escaping () -> Void) {
        events.add(time + max(0, delay), action)
    }

    /// The time of the next scheduled action; `nil` if there is none.
    package var nextEvent: Int64? { events.next }

    package func advance(to later: Int64) {
        time = max(time, later)
    }

    /// Runs the actions that are due.
    func runDue() {
        while let action = events.popDue(time) { action() }
    }

    private func enter() {
        calls += 1
        time += conditions.callTime
    }

    // MARK: Draws

    func drawPipe() -> Pipe {
        Pipe(sendRoom: random.magnitude(conditions.buffers), receiveRoom: random.magnitude(conditions.buffers))
    }

    func drawTogether() -> Bool { random.chance(conditions.together) }
    func drawDatagramRoom() -> Int { random.magnitude(conditions.datagramBuffers) }
    func drawDatagramFull() -> Bool { conditions.datagramsFull > 0 && random.chance(conditions.datagramsFull) }
    func drawPathError() -> Bool { conditions.pathErrors > 0 && random.chance(conditions.pathErrors) }
    func isLost(sent number: Int) -> Bool { conditions.lostDatagrams.sent.contains(number) }
    func isLost(received number: Int) -> Bool { conditions.lostDatagrams.received.contains(number) }
    func drawPause() -> Int64 { Int64(random.magnitude(1_000...10_000_000)) }

    /// Removes the descriptors that one wait reports, drawn from `ready`, and returns them in random order.
    func takeSome(of ready: inout [Int32]) -> [Int32] {
        if ready.count > 1 {
            for index in 0..<ready.count - 1 { ready.swapAt(index, random.int(index...ready.count - 1)) }
        }
        let taken = Array(ready.prefix(conditions.reports))
        ready.removeFirst(taken.count)
        return taken
    }

    // MARK: The network

    private static func key(_ one: UInt32, _ other: UInt32) -> UInt64 {
        UInt64(min(one, other)) << 32 | UInt64(max(one, other))
    }

    /// The path between two hosts.
    package func path(_ one: UInt32, _ other: UInt32) -> SimulatedPath {
        paths[Self.key(one, other)] ?? SimulatedPath()
    }

    /// Changes the path between two hosts. If it is no longer cut, the traffic that waited for it continues.
    package func setPath(_ one: UInt32, _ other: UInt32, _ path: SimulatedPath) {
        let key = Self.key(one, other)
        paths[key] = path
        guard path.cutUntil <= time else { return }
        let ready = held.filter { $0.path == key }
        held.removeAll { $0.path == key }
        for entry in ready { schedule(after: drawLatency(path)) { entry.action() } }
    }

    /// Changes one bit of the bytes that arrive now between two hosts, if the path damages them. They are the last `count`
    /// bytes of `queue`.
    func damage(_ count: Int, of queue: inout ByteQueue, between one: UInt32, _ other: UInt32) {
        let key = Self.key(one, other)
        guard count > 0, paths[key]?.isDamaging == true else { return }
        paths[key]?.isDamaging = false
        queue.flip(queue.count - count + random.int(0...count - 1), bit: random.int(0...7))
    }

    private func drawLatency(_ path: SimulatedPath) -> Int64 {
        path.parameters.transit(PathModel.fraction(using: &random))
    }

    /// Calls `action` after the time that bytes need for the path. While the path is cut, they wait.
    func travel(from: UInt32, to: UInt32, _ action: @escaping () -> Void) {
        let path = path(from, to)
        let key = Self.key(from, to)
        guard path.cutUntil != .max else { return held.append((key, action)) }
        let start = max(time, path.cutUntil)
        events.add(start + drawLatency(path)) { [unowned self] in
            // The path may have been cut meanwhile.
            if self.path(from, to).cutUntil > time { travel(from: from, to: to, action) } else { action() }
        }
    }

    /// Changes one bit of a datagram that arrives now between two hosts, if the path damages it.
    func damage(_ datagram: inout [UInt8], between one: UInt32, _ other: UInt32) {
        let key = Self.key(one, other)
        guard !datagram.isEmpty, paths[key]?.isDamaging == true else { return }
        paths[key]?.isDamaging = false
        datagram[random.int(0...datagram.count - 1)] ^= 1 << UInt8(random.int(0...7))
    }

    /// Calls `action` when a datagram of `bytes` arrives: not at all, once or twice.
    func travelAsDatagram(_ bytes: Int, from: UInt32, to: UInt32, _ action: @escaping () -> Void) {
        let path = path(from, to)
        let draw = PathModel.Draw(using: &random)
        guard path.cutUntil <= time else { return }
        let direction = UInt64(from) << 32 | UInt64(to)
        var model = datagramPaths[direction] ?? PathModel()
        model.parameters = path.parameters
        defer { datagramPaths[direction] = model }
        guard case .arrives(let passage, let copy) = model.admit(bytes, draw, at: time) else { return }
        func arrive(_ passage: PathModel.Passage) {
            events.add(passage.arrival) { [unowned self] in
                if self.path(from, to).cutUntil <= time { action() }
            }
        }
        arrive(passage)
        if let copy { arrive(copy) }
    }

    // MARK: Processes

    /// Ends a process at once. Its kernel closes the open descriptors. With `losesPower` the kernel ends too, so that
    /// peers receive neither FIN nor RST.
    package func kill(_ process: SimulatedProcess, losesPower: Bool) {
        guard !process.isDead else { return }
        process.isDead = true
        trace.note(
            6,
            Int(process.host),
            losesPower ? 1 : 0,
            "\(process.name) is killed\(losesPower ? " with its host" : "")"
        )
        for socket in sockets {
            guard let socket, socket.process === process else { continue }
            switch socket {
            case let stream as SimulatedStream:
                for end in stream.waiting {
                    if losesPower { end.vanish() } else { end.closed(abort: true) }
                }
                stream.waiting = []
                if stream.phase == .listening { stopListening(stream) }
                if losesPower { stream.vanish() } else { stream.detach() }
            case let datagrams as SimulatedDatagrams:
                unbind(datagrams)
                datagrams.isVanished = true
                datagrams.pending = 101
                datagrams.changed()
            default: break
            }
        }
    }

    /// The number of open descriptors in live processes.
    package var openDescriptors: Int {
        sockets.reduce(0) { $0 + ($1 == nil || $1?.process.isDead == true ? 0 : 1) }
    }

    /// Resets every connection between two hosts, as a middlebox does.
    package func resetConnections(_ one: UInt32, _ other: UInt32) {
        for case let stream as SimulatedStream in sockets where stream.phase == .open {
            guard stream.process.host == one, stream.peerAddress?.host == other, let peer = stream.peer else {
                continue
            }
            peer.broke(104)
            stream.broke(104)
        }
    }

    // MARK: Tables

    func socket(_ descriptor: Int32) -> SimulatedSocket? {
        let index = Int(descriptor) - Int(CSOCKETIO_SIMULATED)
        return sockets.indices.contains(index) ? sockets[index] : nil
    }

    func listener(at address: SimulatedAddress) -> SimulatedStream? { listeners[address] }
    func datagrams(at address: SimulatedAddress) -> SimulatedDatagrams? { bound[address] }

    func stopListening(_ socket: SimulatedStream) {
        if let local = socket.local, listeners[local] === socket { listeners[local] = nil }
    }

    func unbind(_ socket: SimulatedDatagrams) {
        if let local = socket.local, bound[local] === socket { bound[local] = nil }
    }

    func freeAddress(_ process: SimulatedProcess, isDatagram: Bool) -> SimulatedAddress {
        while true {
            process.nextPort = process.nextPort == .max ? 32_768 : process.nextPort + 1
            let address = SimulatedAddress(host: process.host, port: process.nextPort)
            if isDatagram ? bound[address] == nil : listeners[address] == nil { return address }
        }
    }

    private func open(_ socket: SimulatedSocket) -> Int32 {
        let process = socket.process
        guard process.openDescriptors < process.descriptorLimit else { return -24 }  // EMFILE
        process.openDescriptors += 1
        if let index = free.popLast() {
            socket.descriptor = index + CSOCKETIO_SIMULATED
            sockets[Int(index)] = socket
        } else {
            socket.descriptor = Int32(sockets.count) + CSOCKETIO_SIMULATED
            sockets.append(socket)
        }
        return socket.descriptor
    }
}

// MARK: - System calls

extension SimulatedKernel {
    private static func kernel(_ context: UnsafeMutableRawPointer?) -> SimulatedKernel? {
        context.map { Unmanaged<SimulatedKernel>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func functions(_ context: UnsafeMutableRawPointer) -> csocketio_kernel {
        csocketio_kernel(
            context: context,
            open: { SimulatedKernel.kernel($0)?.openSocket(family: $1, type: $2) ?? -9 },
            close: { SimulatedKernel.kernel($0)?.close($1) ?? -9 },
            bind: { SimulatedKernel.kernel($0)?.bind($1, SimulatedKernel.address($2, $3)) ?? -9 },
            connect: { SimulatedKernel.kernel($0)?.connect($1, SimulatedKernel.address($2, $3)) ?? -9 },
            listen: { SimulatedKernel.kernel($0)?.listen($1, Int($2)) ?? -9 },
            accept: { SimulatedKernel.kernel($0)?.accept($1, $2, $3) ?? -9 },
            local: { SimulatedKernel.fill($2, $3, SimulatedKernel.kernel($0)?.socket($1)?.local) },
            peer: { SimulatedKernel.fill($2, $3, SimulatedKernel.kernel($0)?.peer($1)) },
            receive: {
                SimulatedKernel.kernel($0)?.receive($1, UnsafeMutableRawBufferPointer(start: $2, count: $3), $4, $5)
                    ?? -9
            },
            send: {
                SimulatedKernel.kernel($0)?.send(
                    $1,
                    UnsafeRawBufferPointer(start: $2, count: $3),
                    SimulatedKernel.address($4, $5)
                ) ?? -9
            },
            shutdown: { SimulatedKernel.kernel($0)?.shutdown($1, $2) ?? -9 },
            get_option: { SimulatedKernel.kernel($0)?.getOption($1, $2, $3, $4, $5) ?? -9 },
            set_option: { SimulatedKernel.kernel($0)?.setOption($1, $2, $3, $4, $5) ?? -9 },
            unacknowledged: { SimulatedKernel.kernel($0)?.unacknowledged($1) ?? 0 },
            now: { SimulatedKernel.kernel($0)?.readClock() ?? 0 },
            random: { SimulatedKernel.kernel($0)?.fill($1, $2) }
        )
    }

    private static func address(_ pointer: UnsafePointer<sockaddr>?, _ length: socklen_t) -> SimulatedAddress? {
        guard let pointer, Int(length) >= MemoryLayout<sockaddr_in>.size,
            pointer.pointee.sa_family == sa_family_t(AF_INET)
        else { return nil }
        return pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
            SimulatedAddress(
                host: UInt32(bigEndian: $0.pointee.sin_addr.s_addr),
                port: UInt16(bigEndian: $0.pointee.sin_port)
            )
        }
    }

    private static func fill(
        _ pointer: UnsafeMutablePointer<sockaddr>?,
        _ length: UnsafeMutablePointer<socklen_t>?,
        _ address: SimulatedAddress?
    ) -> Int32 {
        guard let address else { return -107 }
        guard let pointer, let length, Int(length.pointee) >= MemoryLayout<sockaddr_in>.size else { return -22 }
        pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
            $0.pointee = sockaddr_in()
            $0.pointee.sin_family = sa_family_t(AF_INET)
            $0.pointee.sin_port = address.port.bigEndian
            $0.pointee.sin_addr.s_addr = address.host.bigEndian
        }
        length.pointee = socklen_t(MemoryLayout<sockaddr_in>.size)
        return 0
    }

    private func readClock() -> Int64 {
        enter()
        return time
    }

    private func fill(_ pointer: UnsafeMutableRawPointer?, _ count: Int) {
        guard let pointer else { return }
        let bytes = UnsafeMutableRawBufferPointer(start: pointer, count: count)
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: entropy.next()) }
    }

    private func openSocket(family: Int32, type: Int32) -> Int32 {
        enter()
        guard family == AF_INET else { return -97 }  // EAFNOSUPPORT
        let isStream = type & 0xf == 1
        return open(isStream ? SimulatedStream(self, current) : SimulatedDatagrams(self, current))
    }

    private func close(_ descriptor: Int32) -> Int32 {
        enter()
        guard let socket = socket(descriptor) else { return -9 }
        trace.note(7, Int(descriptor), 0, "\(socket.process.name) closes \(descriptor & 0xffff)")
        let index = descriptor - CSOCKETIO_SIMULATED
        sockets[Int(index)] = nil
        free.append(index)
        socket.process.openDescriptors -= 1
        socket.poller = nil
        socket.closed(abort: false)
        return 0
    }

    private func bind(_ descriptor: Int32, _ address: SimulatedAddress?) -> Int32 {
        enter()
        guard let socket = socket(descriptor), var address else { return -22 }
        if address.host == 0 { address.host = socket.process.host }
        guard address.host == socket.process.host else { return -99 }  // EADDRNOTAVAIL
        let isDatagram = socket is SimulatedDatagrams
        if address.port == 0 { address = freeAddress(socket.process, isDatagram: isDatagram) }
        guard isDatagram ? bound[address] == nil : listeners[address] == nil else { return -98 }  // EADDRINUSE
        socket.local = address
        if let datagrams = socket as? SimulatedDatagrams { bound[address] = datagrams }
        return 0
    }

    private func connect(_ descriptor: Int32, _ address: SimulatedAddress?) -> Int32 {
        enter()
        guard let address else { return -22 }
        switch socket(descriptor) {
        case let stream as SimulatedStream:
            guard stream.phase == .new else { return -106 }
            guard !stream.process.isDead else { return -101 }
            if stream.local == nil { stream.local = freeAddress(stream.process, isDatagram: false) }
            trace.note(
                8,
                Int(address.port),
                Int(descriptor),
                "\(stream.process.name) connects \(descriptor & 0xffff) to \(address)"
            )
            stream.connect(to: address)
            return -115  // EINPROGRESS
        case let datagrams as SimulatedDatagrams:
            guard !datagrams.process.isDead else { return -101 }
            if datagrams.local == nil {
                let local = freeAddress(datagrams.process, isDatagram: true)
                datagrams.local = local
                bound[local] = datagrams
            }
            datagrams.connected = address
            // A socket that is connected to itself receives nothing from others, so its port is free for another one.
            if address == datagrams.local { unbind(datagrams) }
            return 0
        default: return -9
        }
    }

    private func listen(_ descriptor: Int32, _ backlog: Int) -> Int32 {
        enter()
        guard let stream = socket(descriptor) as? SimulatedStream, let local = stream.local else { return -22 }
        guard !stream.process.isDead else { return -101 }
        guard listeners[local] == nil else { return -98 }
        stream.phase = .listening
        stream.backlog = backlog
        listeners[local] = stream
        return 0
    }

    private func accept(
        _ descriptor: Int32,
        _ address: UnsafeMutablePointer<sockaddr>?,
        _ length: UnsafeMutablePointer<socklen_t>?
    ) -> Int32 {
        enter()
        guard let stream = socket(descriptor) as? SimulatedStream, stream.phase == .listening else { return -22 }
        if random.chance(conditions.interrupted) { return -4 }
        guard let end = stream.waiting.first else { return -11 }
        let result = open(end)
        guard result >= 0 else { return result }
        stream.waiting.removeFirst()
        trace.note(9, Int(result), 0, "\(stream.process.name) accepts \(result & 0xffff)")
        _ = Self.fill(address, length, end.peerAddress)
        return result
    }

    private func peer(_ descriptor: Int32) -> SimulatedAddress? {
        switch socket(descriptor) {
        case let stream as SimulatedStream: stream.phase == .open || stream.phase == .broken ? stream.peerAddress : nil
        case let datagrams as SimulatedDatagrams: datagrams.connected
        default: nil
        }
    }

    private func receive(
        _ descriptor: Int32,
        _ buffer: UnsafeMutableRawBufferPointer,
        _ sender: UnsafeMutablePointer<sockaddr>?,
        _ length: UnsafeMutablePointer<socklen_t>?
    ) -> Int {
        enter()
        if random.chance(conditions.interrupted) { return -4 }
        let result: Int
        switch socket(descriptor) {
        case let stream as SimulatedStream:
            result = stream.receive(into: buffer)
            stream.process.bytesReceived += max(0, result)
            stream.peer?.process.bytesTaken += max(0, result)
        case let datagrams as SimulatedDatagrams:
            let (count, address) = datagrams.receive(into: buffer)
            if let address, sender != nil { _ = Self.fill(sender, length, address) }
            result = count
        default: return -9
        }
        trace.note(10, Int(descriptor), result, "\(current.name) receives \(result) from \(descriptor & 0xffff)")
        return result
    }

    private func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, _ address: SimulatedAddress?) -> Int {
        enter()
        if random.chance(conditions.interrupted) { return -4 }
        let result: Int
        switch socket(descriptor) {
        case let stream as SimulatedStream:
            result = stream.send(bytes)
            stream.process.bytesSent += max(0, result)
        case let datagrams as SimulatedDatagrams: result = datagrams.send(bytes, to: address)
        default: return -9
        }
        trace.note(
            11,
            Int(descriptor),
            result,
            "\(current.name) sends \(result) of \(bytes.count) on \(descriptor & 0xffff)"
        )
        return result
    }

    private func shutdown(_ descriptor: Int32, _ how: Int32) -> Int32 {
        enter()
        guard let stream = socket(descriptor) as? SimulatedStream else { return -107 }
        if stream.phase == .listening {
            stopListening(stream)
            for end in stream.waiting { end.closed(abort: true) }
            stream.waiting = []
            stream.phase = .new
            return 0
        }
        return stream.shutdownWriting()
    }

    private func unacknowledged(_ descriptor: Int32) -> Int32 {
        enter()
        guard let stream = socket(descriptor) as? SimulatedStream else { return 0 }
        if stream.phase == .broken { return Int32(stream.unacknowledgedAtEnd) }
        guard stream.phase == .open, let outgoing = stream.outgoing else { return 0 }
        return Int32(outgoing.unsent.count + (outgoing.isEnded && !outgoing.endArrived ? 1 : 0))
    }

    private func getOption(
        _ descriptor: Int32,
        _ level: Int32,
        _ name: Int32,
        _ value: UnsafeMutableRawPointer?,
        _ length: UnsafeMutablePointer<socklen_t>?
    ) -> Int32 {
        enter()
        guard level == SOL_SOCKET, name == SO_ERROR, let value else { return -92 }
        var error: Int32 = 0
        switch socket(descriptor) {
        case let stream as SimulatedStream: error = stream.takePending()
        case let datagrams as SimulatedDatagrams: error = datagrams.takePending()
        default: return -9
        }
        value.storeBytes(of: error, as: Int32.self)
        return 0
    }

    private func setOption(
        _ descriptor: Int32,
        _ level: Int32,
        _ name: Int32,
        _ value: UnsafeRawPointer?,
        _ length: socklen_t
    ) -> Int32 {
        enter()
        guard let socket = socket(descriptor) else { return -9 }
        if level == SOL_SOCKET, name == SO_LINGER, Int(length) >= MemoryLayout<linger>.size, let value,
            let stream = socket as? SimulatedStream
        {
            let linger = value.load(as: linger.self)
            stream.lingersNot = linger.l_onoff != 0 && linger.l_linger == 0
        }
        return 0
    }
}

extension SimulatedStream {
    /// Closes the socket because its process was killed. Tasks of the process that still use it see a broken
    /// connection.
    func detach() {
        let wasOpen = phase == .open
        guard wasOpen else {
            phase = .broken
            pending = 104
            changed()
            return
        }
        if incoming?.arrived.isEmpty ?? true {
            // A second end without a descriptor delivers the rest.
            let rest = SimulatedStream(kernel, process)
            rest.takeOver(self)
        } else {
            reset()
        }
        phase = .broken
        pending = 104
        incoming = nil
        outgoing = nil
        changed()
    }

    private func takeOver(_ other: SimulatedStream) {
        (local, peerAddress, peer, incoming, outgoing) = (
            other.local, other.peerAddress, other.peer, other.incoming, other.outgoing
        )
        phase = .open
        peer?.peer = self
        other.peer = nil
        outgoing?.isMoving = false
        closed(abort: false)
    }
}
