/// The names that need no server: those in the hosts file, and localhost.
enum HostsFile {
    static let systemPath = "/etc/hosts"
    /// The largest file that is read, in bytes. A longer one counts as empty.
    private static let maximumBytes = 4 << 20

    /// Returns the addresses of `host` in a hosts file (hosts(5)), in the order of its lines. Returns those of loopback
    /// for localhost and for names below it, if the file does not contain them (RFC 6761, section 6.3).
    static func addresses(of host: String, port: UInt16, in path: String = systemPath) -> [SocketAddress] {
        let name = (host.hasSuffix(".") ? host.dropLast() : host[...]).lowercased()
        var found: [SocketAddress] = []
        for line in contents(of: path).split(separator: UInt8(ascii: "\n")) {
            let fields = line.prefix { $0 != UInt8(ascii: "#") }.split { $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }
            guard let address = fields.first, fields.dropFirst().contains(where: { equal($0, name) }) else { continue }
            let text = String(decoding: address, as: UTF8.self)
            guard let address = SocketAddress(numeric: text, port: port), !found.contains(address) else { continue }
            found.append(address)
        }
        guard found.isEmpty, name == "localhost" || name.hasSuffix(".localhost") else { return found }
        return ["::1", "127.0.0.1"].compactMap { SocketAddress(numeric: $0, port: port) }
    }

    private static func equal(_ field: ArraySlice<UInt8>, _ name: String) -> Bool {
        field.count == name.utf8.count
            && zip(field, name.utf8).allSatisfy { ($0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0) == $1 }
    }

    private static func contents(of path: String) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, (1...maximumBytes) ~= Int(status.st_size)
        else { return [] }
        let size = Int(status.st_size)
        return [UInt8](unsafeUninitializedCapacity: size) { target, count in
            while count < size, let start = target.baseAddress {
                let bytes = read(file, start + count, size - count)
                guard bytes > 0 else { return }
                count += bytes
            }
        }
    }
}
