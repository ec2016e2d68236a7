/// An IPv4 or IPv6 address with its port.
package struct SocketAddress: Sendable {
    /// The bytes of a sockaddr_in or of a sockaddr_in6, the longest of them. They take a quarter of a sockaddr_storage,
    /// because the address of each datagram is copied and stored.
    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    private let length: socklen_t

    /// Copies an address that a system call has filled in. Returns `nil` if it has another family.
    init?(_ address: UnsafePointer<sockaddr>, length: socklen_t) {
        let family = Int32(address.pointee.sa_family)
        guard family == AF_INET || family == AF_INET6, Int(length) <= MemoryLayout<sockaddr_in6>.size else {
            return nil
        }
        self.length = length
        withUnsafeMutableBytes(of: &words) {
            $0.copyMemory(from: UnsafeRawBufferPointer(start: address, count: Int(length)))
        }
    }

    /// Parses a numeric address ("127.0.0.1", "::1", "fe80::1%eth0") without using the network. Returns `nil` if `host`
    /// is not one.
    package init?(numeric host: String, port: UInt16) {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV
        hints.ai_socktype = Platform.streamSocket
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0, let list else { return nil }
        defer { freeaddrinfo(list) }
        guard let address = list.pointee.ai_addr, let found = SocketAddress(address, length: list.pointee.ai_addrlen)
        else {
            return nil
        }
        self = found
    }

    /// `AF_INET` or `AF_INET6`.
    package var family: Int32 { withPointer { address, _ in Int32(address.pointee.sa_family) } }
    /// Whether this is an IPv6 address.
    package var isIPv6: Bool { family == AF_INET6 }

    /// Whether this is a loopback address (RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.3), so that its packets
    /// come from this machine.
    package var isLoopback: Bool {
        withUnsafeBytes(of: words) { all in
            guard isIPv6 else { return all[4] == 127 }
            let address = all[8..<24]
            let isMapped = address.prefix(10).allSatisfy { $0 == 0 } && all[18] == 0xff && all[19] == 0xff
            return isMapped ? all[20] == 127 : address.dropLast().allSatisfy { $0 == 0 } && all[23] == 1
        }
    }

    /// The port.
    package var port: UInt16 {
        withUnsafeBytes(of: words) { UInt16(bigEndian: $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self)) }
    }

    /// Returns the same address with another port.
    func at(port: UInt16) -> SocketAddress {
        var other = self
        withUnsafeMutableBytes(of: &other.words) {
            $0.storeBytes(of: port.bigEndian, toByteOffset: 2, as: UInt16.self)
        }
        return other
    }

    private var familyAndPort: UInt32 { withUnsafeBytes(of: words.0) { $0.load(as: UInt32.self) } }

    /// The numeric address, without brackets and port.
    package var host: String {
        // This is the fast path, because servers use it for each new connection.
        if family == AF_INET { return withUnsafeBytes(of: words) { "\($0[4]).\($0[5]).\($0[6]).\($0[7])" } }
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let result = withPointer { getnameinfo($0, $1, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) }
        guard result == 0 else { return "?" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Calls `body` with the bytes that identify the address (family, port, address), for keys and for cookies that are
    /// bound to an address. The pointer must not outlive the call.
    package func withIdentity<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        withUnsafeBytes(of: words) { all in
            // In an IPv6 address, the flow label is between port and address. The sender may vary it, so it is left
            // out.
            guard isIPv6 else { return body(UnsafeRawBufferPointer(rebasing: all[0..<8])) }
            var identity = (UInt64(0), UInt64(0), UInt64(0))
            return withUnsafeMutableBytes(of: &identity) { target in
                target.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[0..<4]))
                UnsafeMutableRawBufferPointer(rebasing: target[8..<24])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: all[8..<24]))
                return body(UnsafeRawBufferPointer(target))
            }
        }
    }

    /// The addresses that usually belong to one owner: an IPv4 address, or the 64 bits of an IPv6 network (RFC 6177).
    /// An IPv4 address that is mapped to IPv6 (RFC 4291, section 2.5.5.2) equals the IPv4 address.
    package struct Network: Sendable, Hashable {
        fileprivate var bits: UInt64
        fileprivate var isIPv6: Bool

        /// A number for the network. All other networks that are in use have different numbers.
        package var number: UInt64 { isIPv6 ? bits : bits | 0xffff << 32 }
    }

    /// The network of this address.
    package var network: Network {
        withUnsafeBytes(of: words) { all in
            func word(_ offset: Int) -> UInt64 { UInt64(all.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
            guard isIPv6 else { return Network(bits: word(4), isIPv6: false) }
            let isMapped = word(8) == 0 && word(12) == 0 && word(16) == UInt64(UInt32(0xffff).bigEndian)
            return isMapped
                ? Network(bits: word(20), isIPv6: false) : Network(bits: word(8) << 32 | word(12), isIPv6: true)
        }
    }

    func withPointer<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        withUnsafePointer(to: words) { words in
            words.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    /// Returns the address that `body`, a system call, fills in.
    static func filled(
        by body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                body(address, &length) < 0 ? nil : SocketAddress(address, length: length)
            }
        }
    }
}

extension SocketAddress: Hashable, CustomStringConvertible {
    /// Returns whether family, port and address are equal.
    package static func == (left: SocketAddress, right: SocketAddress) -> Bool {
        guard left.isIPv6 else { return left.words.0 == right.words.0 }
        return left.familyAndPort == right.familyAndPort && left.words.1 == right.words.1
            && left.words.2 == right.words.2
    }

    /// Hashes the values that ``==(_:_:)`` compares.
    package func hash(into hasher: inout Hasher) {
        withIdentity { hasher.combine(bytes: $0) }
    }

    /// `127.0.0.1:80` or `[::1]:80`.
    package var description: String {
        isIPv6 ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
