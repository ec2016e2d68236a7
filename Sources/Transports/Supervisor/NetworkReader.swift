#if os(Linux)
import Protocols
import SocketIO
import TransportAPI

/// Reads the network path from the kernel's lists. The kernel writes a list while it is received, so this never waits.
struct NetworkReader {
    /// The maximum number of datagrams of a list. About 300 routes fit into one.
    private static let datagramLimit = 1 << 16
    /// The number of attempts to read lists that change while they are read.
    private static let attempts = 3

    private let socket: NetlinkSocket
    private var sequence: UInt32 = 0

    init(_ socket: NetlinkSocket) {
        self.socket = socket
    }

    func close() {
        socket.close()
    }

    /// Returns whether a datagram of changes may have changed the path. Routes to single networks have no effect on it,
    /// and on some machines there are thousands of such changes. A datagram that can't be read counts as a change.
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

    /// Reads the current path.
    ///
    /// - Throws: The error of the socket if the kernel does not answer. `EBADMSG` if no answer could be read in several
    ///   attempts.
    mutating func read() throws(SystemError) -> NetworkPath {
        var buffer = [UInt8](repeating: 0, count: NetlinkSocket.datagramSize)
        for _ in 0..<Self.attempts {
            var state = NetworkState()
            var isWhole = true
            // The routes come first. Of the other lists, only entries that belong to these routes are kept.
            for table in NetlinkSocket.Table.allCases {
                sequence &+= 1
                try socket.request(table, sequence: sequence)
                if !(try readList(into: &state, &buffer)) { isWhole = false }
            }
            if isWhole { return state.path }
        }
        throw SystemError("netlink", EBADMSG)
    }

    /// Reads a list to its end. Returns `false` if the list may be incomplete.
    private func readList(into state: inout NetworkState, _ buffer: inout [UInt8]) throws(SystemError) -> Bool {
        var isWhole = true
        for _ in 0..<Self.datagramLimit {
            switch buffer.withUnsafeMutableBytes({ socket.receive(into: $0) }) {
            case .bytes(let count):
                var messages = NetlinkMessages(buffer[..<count])
                while let message = messages.next() {
                    // This is an answer to an earlier request that was given up.
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
            case .wouldBlock, .end, .insecure: return false
            }
        }
        return false
    }
}
#endif
