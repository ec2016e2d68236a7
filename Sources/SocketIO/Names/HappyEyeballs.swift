/// The order in which the addresses of a host are tried (RFC 8305, section 4). The families alternate, beginning with
/// the family of the resolver's first address. Within a family, the resolver's order is kept.
package enum HappyEyeballs {
    /// The delay between the starts of two attempts, in nanoseconds (section 5: Connection Attempt Delay).
    package static let stagger: Int64 = 250_000_000

    /// Returns `addresses` with alternating families.
    package static func order(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let first = addresses.first else { return [] }
        let leading = addresses.filter { $0.family == first.family }
        let trailing = addresses.filter { $0.family != first.family }
        var ordered: [SocketAddress] = []
        for index in 0..<max(leading.count, trailing.count) {
            if index < leading.count { ordered.append(leading[index]) }
            if index < trailing.count { ordered.append(trailing[index]) }
        }
        return ordered
    }
}
