#if os(Linux)
import Protocols
import SocketIO
import TransportAPI

/// Reads the network path from the kernel's lists. The kernel writes a list while it is being received, so this never waits.
struct NetworkReader {
    /// How many datagrams a list may have; some 300 routes fit into one.
    private static let datagramLimit = 1 << 16
    /// How often lists that change while they are read are read again.
    private static let attempts = 3

    private let socket: NetlinkSocket
    private var sequence: UInt32 = 0

    init(_ socket: NetlinkSocket) {
        self.socket = socket
    }

    func close() {
        socket.close()
    }

    /// Whether a datagram of changes may have changed the path. Routes that lead to single networks come and go by the
    /// thousands on some machines and don't; whatever can't be read may.
    static func matters(_ datagram: ArraySlice<UInt8>) -> Bool {
        var messages = NetlinkMessages(datagram)
        while let message = messages.next() {
            switch message.content {
            case .route(let route): if route.isEverywhere { return true }
            case .other: break
            default: return true
            }
        }
        return messages.isMalformed
    }

    /// The present path.
    ///
    /// - Throws: if the kernel does not answer; EBADMSG if it could not be understood, repeatedly.
    mutating func read() throws(SystemError) -> NetworkPath {
        var buffer = [UInt8](repeating: 0, count: NetlinkSocket.datagramSize)
        for _ in 0..<Self.attempts {
            var state = NetworkState()
            var isWhole = true
            // The routes first: of the rest, only what belongs to them is kept.
            for table in NetlinkSocket.Table.allCases {
                sequence &+= 1
                try socket.request(table, sequence: sequence)
                if !(try readList(into: &state, &buffer)) { isWhole = false }
            }
            if isWhole { return state.path }
        }
        throw SystemError("netlink", EBADMSG)
    }

    /// Reads a list to its end; `false` if it is not to be trusted.
    private func readList(into state: inout NetworkState, _ buffer: inout [UInt8]) throws(SystemError) -> Bool {
        var isWhole = true
        for _ in 0..<Self.datagramLimit {
            switch buffer.withUnsafeMutableBytes({ socket.receive(into: $0) }) {
            case .bytes(let count):
                var messages = NetlinkMessages(buffer[..<count])
                while let message = messages.next() {
                    // An answer to an earlier request that was given up.
                    guard message.sequence == sequence else { continue }
                    let content = message.content
                    if message.isInterrupted { isWhole = false }
                    switch content {
                    case .done: return isWhole
                    case .refused(let number): throw SystemError("netlink", number)
                    case .malformed: isWhole = false
                    default: state.note(content)
                    }
                }
                if messages.isMalformed { isWhole = false }
            case .failed(let error) where error.number == EMSGSIZE: isWhole = false
            case .failed(let error): throw error
            case .wouldBlock, .end: return false
            }
        }
        return false
    }
}
#endif
