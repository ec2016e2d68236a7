import TransportAPI

@testable import Protocols
@testable import SocketIO
@testable import Transports

/// Reads datagrams of the kernel and derives the network path.
func fuzzNetlink(_ bytes: [UInt8]) throws {
    #if os(Linux)
    var state = NetworkState()
    var messages = NetlinkMessages(bytes[...])
    var count = 0
    while let message = messages.next() {
        count += 1
        _ = message.isInterrupted
        state.note(message.content)
        if case .address(let address) = message.content {
            try ensure(address.prefixLength <= address.address.count * 8, "a prefix of \(address.prefixLength)")
        }
    }
    try ensure(count <= bytes.count / 16, "\(count) messages")
    let path = state.path
    try ensure(path.isUsable || path.network.isEmpty, "a name for no network")
    _ = NetworkReader.matters(bytes[...])
    #endif
}
