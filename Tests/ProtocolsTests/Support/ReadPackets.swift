import TransportAPI

@testable import Protocols

/// Reads bytes that arrive in pieces of these sizes, and the rest at once. Returns the packets, and the error that ended them.
func readPackets(
    _ bytes: [UInt8],
    slices: [Int] = [],
    maximumMessageSize: Int = 1 << 20
) -> (packets: [MQTTPacket], failure: TransportError?) {
    var reader = MQTTPacketReader(maximumMessageSize: maximumMessageSize)
    reader.phase = .open
    var input = ByteBuffer()
    var packets: [MQTTPacket] = []
    var rest = bytes[...]
    var sizes = slices.makeIterator()
    do throws(TransportError) {
        repeat {
            let size = sizes.next() ?? .max
            input.append(contentsOf: Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
            repeat {
                while let packet = try reader.next(&input) { packets.append(packet) }
            } while reader.begun != nil
        } while !rest.isEmpty
    } catch {
        return (packets, error)
    }
    return (packets, nil)
}
