#if os(Linux)
import CSocketIO

/// One message of a netlink datagram (RFC 3549, section 2.3.2). All numbers are in the machine's own byte order.
package struct NetlinkMessage: Sendable {
    /// What it says: NLMSG_DONE, RTM_NEWLINK, ...
    package var type: UInt16
    /// NLM_F_...
    package var flags: UInt16
    /// Of the request that it answers.
    package var sequence: UInt32
    /// What follows the header.
    package var body: ArraySlice<UInt8>

    /// The attributes behind a fixed header of `length` bytes; none if there is no such header.
    func attributes(behind length: Int) -> NetlinkAttributes {
        NetlinkAttributes(body.dropFirst(length))
    }
}

/// The messages of a netlink datagram, up to the first that is not whole.
package struct NetlinkMessages: Sequence, IteratorProtocol {
    private var rest: ArraySlice<UInt8>
    /// Whether what is left is not a message.
    package private(set) var isMalformed = false

    /// The messages of `datagram`.
    package init(_ datagram: ArraySlice<UInt8>) {
        rest = datagram
    }

    /// The next message; `nil` at the end, and where the datagram is ``isMalformed``.
    package mutating func next() -> NetlinkMessage? {
        guard !rest.isEmpty, !isMalformed else { return nil }
        let header = MemoryLayout<nlmsghdr>.size
        guard let length = rest.number(at: 0, UInt32.self), let type = rest.number(at: 4, UInt16.self),
            let flags = rest.number(at: 6, UInt16.self), let sequence = rest.number(at: 8, UInt32.self),
            length >= header, length <= rest.count
        else {
            isMalformed = true
            return nil
        }
        let body = rest.prefix(Int(length)).dropFirst(header)
        rest = rest.dropFirst(Int(length).aligned)
        return NetlinkMessage(type: type, flags: flags, sequence: sequence, body: body)
    }
}

/// The attributes of a message, or of an attribute: type, length and value, each aligned to four bytes (RFC 3549, section
/// 2.2).
package struct NetlinkAttributes: Sequence, IteratorProtocol {
    private var rest: ArraySlice<UInt8>
    /// Whether what is left is not an attribute.
    package private(set) var isMalformed = false

    /// The attributes in `bytes`.
    package init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    /// The next attribute, its type without the flags; `nil` at the end, and where the bytes are ``isMalformed``.
    package mutating func next() -> (type: Int, value: ArraySlice<UInt8>)? {
        guard !rest.isEmpty, !isMalformed else { return nil }
        guard let length = rest.number(at: 0, UInt16.self), let type = rest.number(at: 2, UInt16.self),
            length >= 4, length <= rest.count
        else {
            isMalformed = true
            return nil
        }
        let value = rest.prefix(Int(length)).dropFirst(4)
        rest = rest.dropFirst(Int(length).aligned)
        // The two highest bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER.
        return (Int(type & 0x3fff), value)
    }
}

extension ArraySlice<UInt8> {
    /// The number `offset` bytes behind the beginning, in the machine's byte order; `nil` if there are too few bytes.
    package func number<Number: FixedWidthInteger>(at offset: Int, _: Number.Type) -> Number? {
        guard offset >= 0, offset <= count - MemoryLayout<Number>.size else { return nil }
        return withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) }
    }
}

extension Int {
    /// Rounded up to the four bytes to which netlink aligns everything.
    fileprivate var aligned: Int { (self + 3) & ~3 }
}
#endif
