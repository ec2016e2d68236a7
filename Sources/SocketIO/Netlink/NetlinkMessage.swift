#if os(Linux)
import CSocketIO

/// One message of a netlink datagram (RFC 3549, section 2.3.2). All numbers are in the machine's byte order.
package struct NetlinkMessage: Sendable {
    /// The type of the message: NLMSG_DONE, RTM_NEWLINK, ...
    package var type: UInt16
    /// The flags NLM_F_...
    package var flags: UInt16
    /// The sequence number of the request that the message answers.
    package var sequence: UInt32
    /// The bytes after the header.
    package var body: ArraySlice<UInt8>

    /// Returns the attributes after a fixed header of `length` bytes. There are none if the body is shorter than the
    /// header.
    func attributes(behind length: Int) -> NetlinkAttributes {
        NetlinkAttributes(body.dropFirst(length))
    }
}

/// The messages of a netlink datagram, up to the first incomplete one.
package struct NetlinkMessages: Sequence, IteratorProtocol {
    private var rest: ArraySlice<UInt8>
    /// Whether the rest of the datagram is not a message.
    package private(set) var isMalformed = false

    /// Creates the sequence of the messages in `datagram`.
    package init(_ datagram: ArraySlice<UInt8>) {
        rest = datagram
    }

    /// Returns the next message. Returns `nil` at the end, and when the datagram is ``isMalformed``.
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

/// The attributes of a message or of an attribute. Each has a type, a length and a value, and is aligned to four bytes
/// (RFC 3549, section 2.2).
package struct NetlinkAttributes: Sequence, IteratorProtocol {
    private var rest: ArraySlice<UInt8>
    /// Whether the rest of the bytes is not an attribute.
    package private(set) var isMalformed = false

    /// Creates the sequence of the attributes in `bytes`.
    package init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    /// Returns the next attribute, its type without the flags. Returns `nil` at the end, and when the bytes are
    /// ``isMalformed``.
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
    /// Returns the number at `offset` from the start, in the machine's byte order. Returns `nil` if there are too few
    /// bytes.
    package func number<Number: FixedWidthInteger>(at offset: Int, _: Number.Type) -> Number? {
        guard offset >= 0, offset <= count - MemoryLayout<Number>.size else { return nil }
        return withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) }
    }
}

extension Int {
    /// The number rounded up to a multiple of four, to which netlink aligns all items.
    fileprivate var aligned: Int { (self + 3) & ~3 }
}
#endif
