/// The addresses of hosts with several addresses that have failed lately: they refused, reset or answered nothing. The
/// other addresses of such a host are tried first.
package struct FailedAddresses {
    /// How many addresses are remembered. Beyond this, the one that failed first is forgotten.
    package static let limit = 256
    /// How long an address is remembered, in nanoseconds.
    package static let memory: Int64 = 600 * 1_000_000_000

    /// When each address failed.
    private var failedAt: [SocketAddress: Int64] = [:]

    /// Remembers nothing at first.
    package init() {}

    /// The number of remembered addresses.
    package var count: Int { failedAt.count }

    /// Remembers that the address has failed.
    package mutating func failed(_ address: SocketAddress, at now: Int64) {
        failedAt[address] = now
        guard failedAt.count > Self.limit, let first = failedAt.min(by: { $0.value < $1.value }) else { return }
        failedAt[first.key] = nil
    }

    /// Forgets an address, because it has worked.
    package mutating func worked(_ address: SocketAddress) {
        if !failedAt.isEmpty { failedAt[address] = nil }
    }

    /// Forgets all addresses, because the machine is in another network.
    package mutating func removeAll() {
        failedAt = [:]
    }

    /// Returns the addresses of a host in the order in which they are tried (``HappyEyeballs``), those that have failed
    /// last.
    package func order(_ addresses: [SocketAddress], at now: Int64) -> [SocketAddress] {
        guard !failedAt.isEmpty else { return HappyEyeballs.order(addresses) }
        func hasFailed(_ address: SocketAddress) -> Bool {
            failedAt[address].map { now - $0 < Self.memory } ?? false
        }
        return HappyEyeballs.order(addresses.filter { !hasFailed($0) })
            + HappyEyeballs.order(addresses.filter(hasFailed))
    }
}
