import Testing

@testable import SocketIO

@Suite("Reserved ports")
struct ReservedPortTests {
    /// Whether a socket outside the reservation can be bound to the port.
    private func isFree(_ address: SocketAddress, isDatagram: Bool) throws -> Bool {
        let type = isDatagram ? Platform.datagramSocket : Platform.streamSocket
        let socket = try Platform.socket(family: address.family, type: type)
        return address.withPointer { bind(socket.raw, $0, $1) } == 0
    }

    @Test("A reserved port serves one listener after another, and no other socket gets it in between")
    func listeners() async throws {
        let loop = try Loops.of(.automatic)
        let port = try ReservedPort(isDatagram: false)
        for _ in 0..<3 {
            #expect(try !isFree(port.address, isDatagram: false))
            try await on(loop) {
                let listener = try ListeningSocket(boundTo: port.address, on: loop)
                let error = #expect(throws: SystemError.self) {
                    _ = try ListeningSocket(boundTo: port.address, on: loop)
                }
                #expect(error?.number == EADDRINUSE)
                listener.close()
            }
        }
        #expect(try !isFree(port.address, isDatagram: false))
    }

    @Test("Datagrams to a reserved port reach the socket that is bound to it, or are refused if there is none")
    func datagrams() async throws {
        let loop = try Loops.of(.automatic)
        let port = try ReservedPort(isDatagram: true)
        for _ in 0..<3 {
            #expect(try !isFree(port.address, isDatagram: true))
            try await on(loop) {
                let server = try DatagramSocket(boundTo: port.address, on: loop)
                let error = #expect(throws: SystemError.self) {
                    _ = try DatagramSocket(boundTo: port.address, on: loop)
                }
                #expect(error?.number == EADDRINUSE)
                let client = try DatagramSocket(connectedTo: port.address, on: loop)
                #expect([UInt8(1)].withUnsafeBytes { client.send($0) } == .bytes(1))
                #expect(next(of: server) == .bytes(1))
                server.close()
                #expect(refusal(of: client) == ECONNREFUSED)
                client.close()
            }
        }
    }

    @Test("A reserved port is free after its release", arguments: [false, true])
    func released(isDatagram: Bool) throws {
        // Another process can take the port at once, but not every time.
        var isFree = false
        for _ in 0..<5 where !isFree {
            let address = try ReservedPort(isDatagram: isDatagram).address
            isFree = try self.isFree(address, isDatagram: isDatagram)
        }
        #expect(isFree)
    }
}
