import SocketIO

/// A middlebox before the server that treats WebSockets badly until it is mended.
final class StackMiddlebox: PollHandler {
    enum Kind: CaseIterable {
        /// It answers a request for an upgrade with 403.
        case forbids
        /// It passes the request on without the header Upgrade.
        case strips
        /// It resets a connection when the client sends something after the upgrade.
        case resets
        /// It drops everything after the answer to the upgrade.
        case swallows
    }

    /// What it does to new connections; `nil` once it is mended.
    var kind: Kind?
    let loop: EventLoop
    private let listening: ListeningSocket
    private let server: (host: String, port: UInt16)
    private var relays: [Int: StackRelay] = [:]
    private var count = 0

    /// Listens. Call this on the loop.
    init(
        _ kind: Kind,
        at address: SocketAddress,
        to server: (host: String, port: UInt16),
        on loop: EventLoop
    ) throws(SystemError) {
        (self.kind, self.server, self.loop) = (kind, server, loop)
        listening = try ListeningSocket(boundTo: address, on: loop)
        try listening.attach(self)
    }

    func ready(_: SocketIO.Readiness) {
        while let socket = (try? listening.accept()).flatMap(\.self) {
            count += 1
            let (relay, number) = (StackRelay(socket, kind, on: loop), count)
            relays[number] = relay
            relay.whenClosed = { [unowned self] in relays[number] = nil }
            relay.connect(to: server.host, port: server.port)
        }
    }

    func close() {
        listening.close()
        for (_, relay) in relays.sorted(by: { $0.key < $1.key }) { relay.close() }
    }
}

/// One connection of a client through a middlebox.
private final class StackRelay {
    private static let piece = 4096
    private static let refusal = Array(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8
    )

    /// One end of the relay, and what was read there and not written at the other one.
    private struct End {
        var socket: StreamSocket?
        var read: [UInt8] = []
        var hasEnded = false
        /// Whether the end of the other one was passed on.
        var hasShutDown = false
    }

    private let kind: StackMiddlebox.Kind?
    private let loop: EventLoop
    private var client = End()
    private var server = End()
    /// The beginning of the request, until its head is complete.
    private var head: [UInt8]? = []
    private var isUpgrade = false
    private var isAnswered = false
    private var isRefused = false
    private var isClosed = false
    private var attempt: Task<Void, Never>?
    var whenClosed: () -> Void = {}

    init(_ socket: StreamSocket, _ kind: StackMiddlebox.Kind?, on loop: EventLoop) {
        (self.kind, self.loop) = (kind, loop)
        client.socket = socket
    }

    /// Connects to the server. If it cannot be reached, the client is reset.
    func connect(to host: String, port: UInt16) {
        let this = LoopBound(self, to: loop)
        let deadline = loop.now + 10_000_000_000
        attempt = Task(executorPreference: loop) { [loop] in
            let socket = try? await StreamSocket.connect(to: host, port: port, on: loop, deadline: deadline)
            loop.execute { this.value.connected(socket?.value) }
        }
    }

    private func connected(_ socket: StreamSocket?) {
        guard !isClosed, let socket else {
            socket?.close(abort: true)
            return close()
        }
        server.socket = socket
        do throws(SystemError) {
            try socket.attach(StackRelaySide(self, socket))
            if let client = client.socket { try client.attach(StackRelaySide(self, client)) }
        } catch {
            close()
        }
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        attempt?.cancel()
        client.socket?.close(abort: true)
        server.socket?.close(abort: true)
        whenClosed()
    }

    /// Passes on what it can.
    func work() {
        var hasMoved = true
        while hasMoved, !isClosed {
            let fromClient = client.read.isEmpty ? read(client.socket) : .bytes([])
            switch fromClient {
            case .bytes(let bytes) where !bytes.isEmpty: client.read = filtered(bytes)
            case .bytes: break
            case .end: client.hasEnded = true
            case .failed: return close()
            }
            let fromServer = server.read.isEmpty ? read(server.socket) : .bytes([])
            switch fromServer {
            case .bytes(let bytes) where !bytes.isEmpty:
                if !isUpgrade || kind != .swallows || !isAnswered { server.read = bytes }
                isAnswered = true
            case .bytes: break
            case .end: server.hasEnded = true
            case .failed: return close()
            }
            guard !isClosed else { return }
            let (written, answered) = (write(client.read, to: server.socket), write(server.read, to: client.socket))
            guard let written, let answered else { return close() }
            client.read.removeFirst(written)
            server.read.removeFirst(answered)
            hasMoved = fromClient.hasBytes || fromServer.hasBytes || written + answered > 0
        }
        guard !isClosed else { return }
        passEnd(of: client, to: &server)
        passEnd(of: server, to: &client)
        if client.hasShutDown && server.hasShutDown || isRefused && server.read.isEmpty { close() }
    }

    private func passEnd(of end: End, to other: inout End) {
        guard end.hasEnded, end.read.isEmpty, !other.hasShutDown else { return }
        other.hasShutDown = true
        _ = other.socket?.shutdownWriting()
    }

    /// What of the client's bytes is passed on.
    private func filtered(_ bytes: [UInt8]) -> [UInt8] {
        guard var head else {
            guard isUpgrade else { return bytes }
            switch kind {
            case .resets:
                close()
                return []
            case .swallows: return []
            case .forbids, .strips, nil: return bytes
            }
        }
        head += bytes
        let text = String(decoding: head, as: UTF8.self)
        guard text.contains("\r\n\r\n") else {
            self.head = head
            return []
        }
        self.head = nil
        isUpgrade = text.lowercased().contains("upgrade: websocket")
        guard isUpgrade else { return head }
        switch kind {
        case .forbids:
            (server.read, isRefused) = (Self.refusal, true)
            return []
        case .strips:
            isUpgrade = false
            return Array(text.replacing("Upgrade: websocket", with: "X-Nothing: websocket").utf8)
        case .resets, .swallows, nil: return head
        }
    }

    /// What a read has given.
    private enum Reading {
        case bytes([UInt8])
        case end, failed

        var hasBytes: Bool {
            if case .bytes(let bytes) = self { !bytes.isEmpty } else { false }
        }
    }

    private func read(_ socket: StreamSocket?) -> Reading {
        guard let socket else { return .bytes([]) }
        return withUnsafeTemporaryAllocation(byteCount: Self.piece, alignment: 1) { memory in
            switch socket.read(into: memory) {
            case .bytes(let count): .bytes(Array(UnsafeRawBufferPointer(memory)[..<count]))
            case .wouldBlock: .bytes([])
            case .end: .end
            case .failed, .insecure: .failed
            }
        }
    }

    /// Returns how many bytes were written; `nil` if the connection has ended.
    private func write(_ bytes: [UInt8], to socket: StreamSocket?) -> Int? {
        guard !bytes.isEmpty, let socket else { return 0 }
        switch bytes.withUnsafeBytes({ socket.write($0) }) {
        case .bytes(let count): return count
        case .wouldBlock: return 0
        case .end, .failed, .insecure: return nil
        }
    }
}

/// Passes the readiness of a socket to its relay.
private final class StackRelaySide: PollHandler {
    private let relay: StackRelay
    private let socket: StreamSocket

    init(_ relay: StackRelay, _ socket: StreamSocket) { (self.relay, self.socket) = (relay, socket) }

    func ready(_ readiness: SocketIO.Readiness) {
        socket.note(readiness)
        relay.work()
    }
}
