/// Resolves names with the system's resolver. Each look-up has a thread of its own, because `getaddrinfo` blocks.
package enum Resolver {
    /// Returns the addresses of `host`, in the resolver's order of preference (RFC 6724). A numeric address needs no
    /// look-up. Cancelling the task ends the wait at once.
    ///
    /// - Parameters:
    ///   - host: a name or a numeric address.
    ///   - port: the port of the returned addresses.
    ///   - loop: the loop whose timer watches the deadline.
    ///   - deadline: when to give up, in nanoseconds of ``MonotonicClock``.
    @concurrent
    package static func resolve(
        _ host: String,
        port: UInt16,
        on loop: EventLoop,
        deadline: Int64
    ) async throws(ConnectError) -> [SocketAddress] {
        try await resolve(host, port: port, on: loop, deadline: deadline, by: .system)
    }

    @concurrent
    static func resolve(
        _ host: String,
        port: UInt16,
        on loop: EventLoop,
        deadline: Int64,
        by lookUps: LookUps
    ) async throws(ConnectError) -> [SocketAddress] {
        if let numeric = SocketAddress(numeric: host, port: port) { return [numeric] }
        let result: LookUps.Outcome = await firstAnswer(
            on: loop,
            by: deadline,
            late: .failure(.timedOut(resolving: true)),
            cancelled: .failure(.cancelled)
        ) { give in
            if let names = loop.names {
                names.lookUp(host, port: port, give)
            } else {
                lookUps.start(host, port: port, give)
            }
        }
        return try result.get()
    }

    /// Looks up a name, and blocks until it has the answer.
    @Sendable
    static func lookUp(_ host: String, _ port: UInt16) -> LookUps.Outcome {
        var hints = addrinfo()
        hints.ai_socktype = Platform.streamSocket
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &list)
        guard code == 0 else {
            let sentence = "\(host): \(String(cString: gai_strerror(code)))"
            let exists = code != EAI_NONAME && code != Platform.noAddressCode
            return .failure(exists ? .resolverFailed(sentence) : .nameNotFound(sentence))
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ai_addr.flatMap({ SocketAddress($0, length: entry.pointee.ai_addrlen) }) {
                addresses.append(address)
            }
            next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .failure(.nameNotFound("\(host) has no address")) : .success(addresses)
    }
}
