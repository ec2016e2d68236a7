import TransportAPI

/// The servers that are connected to without a proxy: a list with commas, as in the variable `no_proxy`.
///
/// | entry | servers |
/// |---|---|
/// | `*` | all |
/// | `example.com`, `.example.com` | this host and its subdomains |
/// | `10.0.0.1`, `::1` | this address, if the URL has it in place of a name |
/// | `10.0.0.0/8`, `169.254/16`, `fe80::/10` | the addresses of this network |
/// | `127.*`, `192.168.*` | the IPv4 addresses that begin with these numbers |
/// | `example.com:8080`, `[::1]:8080` | the same, on this port only |
///
/// Programs understand different entries, and one variable serves them all. So an entry of any other form is ignored, as
/// curl does, and the servers that it may mean are connected to through the proxy.
struct ProxyExceptions: Sendable {
    private enum Servers {
        case all
        /// A name in lower case, and its subdomains.
        case name(String)
        /// The addresses that begin with the same bits.
        case network([UInt8], bits: Int)
    }

    private struct Rule {
        let servers: Servers
        /// `nil` for all ports.
        let port: UInt16?
    }

    private let rules: [Rule]

    /// Reads a list of entries, separated by commas or white space.
    init(_ list: String) {
        // Delimiters are searched among scalars, because a combining mark behind one would hide it among characters.
        let entries = list.unicodeScalars.split { ", \t\r\n".unicodeScalars.contains($0) }
        rules = entries.compactMap { Self.rule(String($0)) }
    }

    private static func rule(_ entry: String) -> Rule? {
        if entry == "*" { return Rule(servers: .all, port: nil) }
        if let slash = entry.lastIndex(of: "/") {
            return network(entry[..<slash], entry[entry.index(after: slash)...]).map { Rule(servers: $0, port: nil) }
        }
        guard let (host, digits) = split(entry) else { return nil }
        guard let digits else { return servers(host).map { Rule(servers: $0, port: nil) } }
        guard let port = number(digits).flatMap(UInt16.init(exactly:)) else { return nil }
        return servers(host).map { Rule(servers: $0, port: port) }
    }

    /// Splits an entry into host and port. A port after an IPv6 address needs brackets around the address.
    private static func split(_ entry: String) -> (host: Substring, port: Substring?)? {
        if entry.hasPrefix("[") {
            guard let bracket = entry.firstIndex(of: "]") else { return nil }
            let rest = entry[entry.index(after: bracket)...]
            guard rest.isEmpty || rest.hasPrefix(":") else { return nil }
            return (entry[..<bracket].dropFirst(), rest.isEmpty ? nil : rest.dropFirst())
        }
        guard let colon = entry.firstIndex(of: ":"), entry.lastIndex(of: ":") == colon else { return (entry[...], nil) }
        return (entry[..<colon], entry[entry.index(after: colon)...])
    }

    private static func servers(_ host: Substring) -> Servers? {
        if let address = numericAddress(String(host)) { return .network(address, bits: address.count * 8) }
        if let pattern = pattern(host) { return pattern }
        var name = host
        if name.hasPrefix("*.") { name = name.dropFirst() }
        if name.hasPrefix(".") { name = name.dropFirst() }
        if name.hasSuffix(".") { name = name.dropLast() }
        guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f && !"*:[]/@".utf8.contains($0) }) else {
            return nil
        }
        return .name(name.lowercased())
    }

    private static func network(_ address: Substring, _ digits: Substring) -> Servers? {
        guard let bits = number(digits) else { return nil }
        // The C library reads "10.1" as 10.0.0.1, which is not what the author of "10.1/16" has in mind.
        guard let numbers = numbers(address) else {
            guard address.contains(":"), let bytes = numericAddress(String(address)), bits <= bytes.count * 8 else {
                return nil
            }
            return .network(bytes, bits: bits)
        }
        // The missing numbers are zeros. They must be behind the bits that count, or it is not clear what they are.
        return bits <= numbers.count * 8 ? network(numbers, bits: bits) : nil
    }

    /// Reads the first numbers of an IPv4 address, and stars for all others.
    private static func pattern(_ text: Substring) -> Servers? {
        guard let star = text.utf8.firstRange(of: ".*".utf8), let numbers = numbers(text[..<star.lowerBound]) else {
            return nil
        }
        let stars = text[star.lowerBound...]
        let isWhole = (1...4).contains { stars == String(repeating: ".*", count: $0) && numbers.count + $0 <= 4 }
        guard isWhole else { return nil }
        return network(numbers, bits: numbers.count * 8)
    }

    /// Reads the first one to four numbers of an IPv4 address.
    private static func numbers(_ text: Substring) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { number($0).flatMap(UInt8.init(exactly:)) }
        return numbers.count == parts.count && numbers.count <= 4 ? numbers : nil
    }

    private static func network(_ numbers: [UInt8], bits: Int) -> Servers {
        .network(numbers + Array(repeating: 0, count: 4 - numbers.count), bits: bits)
    }

    /// Reads a number of at most five digits.
    private static func number(_ digits: Substring) -> Int? {
        guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            return nil
        }
        return Int(digits)
    }

    /// Whether connections to a server use no proxy.
    func contains(_ host: String, port: UInt16) -> Bool {
        let address = numericAddress(host)
        let name = (host.hasSuffix(".") ? host.dropLast() : host[...]).lowercased()
        return rules.contains { rule in
            guard rule.port == nil || rule.port == port else { return false }
            switch rule.servers {
            case .all: return true
            case .name(let suffix): return address == nil && (name == suffix || name.hasSuffix(".\(suffix)"))
            case .network(let network, let bits):
                guard let address, address.count == network.count else { return false }
                return zip(address, network).enumerated().allSatisfy { index, pair in
                    let mask = UInt8(truncatingIfNeeded: 0xff00 >> min(max(bits - index * 8, 0), 8))
                    return pair.0 & mask == pair.1 & mask
                }
            }
        }
    }
}
