import SocketIO

/// A UDP socket without any of our code above it, connected to a port of 127.0.0.1.
struct RawDatagrams: Sendable {
    let socket: Int32

    /// Opens the socket, at 127.x.y.z where a number for the last three bytes is given; `nil` if the system refuses.
    init?(port: UInt16, from place: UInt32? = nil) {
        #if canImport(Glibc)
        socket = Glibc.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        #else
        socket = SocketIO.socket(AF_INET, SOCK_DGRAM, 0)
        #endif
        guard socket >= 0 else { return nil }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        let raw = socket
        let isBound = place.map { place in
            Self.with(0x7f00_0000 | place & 0x00ff_ffff, 0) { bind(raw, $0, $1) == 0 }
        }
        guard isBound ?? true, Self.with(0x7f00_0001, port, { connect(raw, $0, $1) == 0 }) else {
            closeDescriptor(socket)
            return nil
        }
    }

    private static func with(_ host: UInt32, _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool)
        -> Bool
    {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = host.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    func send(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { SocketIO.send(socket, $0.baseAddress, $0.count, 0) }
    }

    /// The size of the next datagram; `nil` if there is none.
    func receive(_ buffer: UnsafeMutableRawBufferPointer) -> Int? {
        let size = recv(socket, buffer.baseAddress, buffer.count, 0)
        return size >= 0 ? size : nil
    }

    func close() {
        closeDescriptor(socket)
    }
}
