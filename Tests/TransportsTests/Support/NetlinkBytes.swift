#if os(Linux)
import SocketIO

@testable import Transports

/// Netlink messages as the kernel would write them.
enum NetlinkBytes {
    static func number<Number: FixedWidthInteger>(_ value: Number) -> [UInt8] {
        withUnsafeBytes(of: value) { Array($0) }
    }

    static func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: -bytes.count & 3)
    }

    static func message(_ type: UInt16, flags: UInt16 = 2, sequence: UInt32 = 1, _ body: [UInt8]) -> [UInt8] {
        let header = number(UInt32(16 + body.count)) + number(type) + number(flags) + number(sequence)
        return padded(header + number(UInt32(0)) + body)
    }

    static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
        padded(number(UInt16(4 + value.count)) + number(type) + value)
    }

    static func route(
        family: UInt8 = 2,
        length: UInt8 = 0,
        table: UInt8 = 254,
        kind: UInt8 = 1,
        flags: UInt32 = 0,
        interface: Int32 = 2,
        gateway: [UInt8] = [192, 0, 2, 1],
        metric: UInt32 = 100,
        extra: [UInt8] = []
    ) -> [UInt8] {
        let header = [family, length, 0, 0, table, 3, 0, kind] + number(flags)
        let way = gateway.isEmpty ? [] : attribute(5, gateway)
        let exit = interface == 0 ? [] : attribute(4, number(interface))
        return message(24, header + exit + way + attribute(6, number(metric)) + extra)
    }

    static func link(_ index: Int32, _ name: String, flags: UInt32 = 0x1_1043) -> [UInt8] {
        let header = [0, 0] + number(UInt16(1)) + number(index) + number(flags) + number(UInt32(0))
        return message(16, header + attribute(3, Array(name.utf8) + [0]) + attribute(0x8000 | 18, attribute(1, [1])))
    }

    static func address(
        _ interface: Int32,
        _ bytes: [UInt8],
        _ length: UInt8,
        flags: UInt8 = 0x80,
        scope: UInt8 = 0
    ) -> [UInt8] {
        let header = [bytes.count == 4 ? 2 : 10, length, flags, scope] + number(interface)
        return message(20, header + attribute(1, bytes) + attribute(2, bytes))
    }

    /// The state that the lists in `datagrams` describe.
    static func state(_ datagrams: [UInt8]...) -> NetworkState {
        var state = NetworkState()
        for datagram in datagrams {
            for message in NetlinkMessages(datagram[...]) { state.note(message.content) }
        }
        return state
    }
}
#endif
