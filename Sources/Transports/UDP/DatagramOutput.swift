import Protocols
import SocketIO
import TransportAPI

/// Sends the datagrams that a core has written.
enum DatagramOutput {
    /// The largest UDP payload over IPv4 (RFC 768).
    static let largest = 65_507

    /// Passes each datagram of the output to `send`. If the kernel has no room, the rest stays in the output. A
    /// datagram that the kernel refuses for another reason is dropped, as on a lossy network. The size of a datagram
    /// that is too long is recorded for the core.
    static func flush(_ context: inout CoreContext, _ send: (UnsafeRawBufferPointer) -> IOResult) -> IOResult {
        var start = 0
        var sent = 0
        var result = IOResult.bytes(0)
        for end in context.datagramEnds {
            let outcome = context.output.withUnsafeReadableBytes { all in
                end <= all.count && start < end ? send(UnsafeRawBufferPointer(rebasing: all[start..<end])) : .bytes(0)
            }
            if outcome == .wouldBlock {
                result = .wouldBlock
                break
            }
            if case .failed(let error) = outcome {
                if error.number == ECONNREFUSED { result = outcome }
                if error.number == EMSGSIZE {
                    context.refusedDatagram = min(context.refusedDatagram ?? .max, end - start)
                }
            }
            start = end
            sent += 1
        }
        context.output.consume(start)
        if sent == context.datagramEnds.count {
            context.datagramEnds.removeAll(keepingCapacity: true)
        } else {
            context.datagramEnds.removeFirst(sent)
            for index in context.datagramEnds.indices { context.datagramEnds[index] -= start }
        }
        return result
    }
}
