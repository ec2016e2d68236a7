import TransportAPI

extension Endpoint {
    /// Checks that every option is one of `allowed` or `ignored`.
    ///
    /// - Parameters:
    ///   - allowed: The settings of this side, which errors offer.
    ///   - ignored: The settings that only the other side has.
    /// - Throws: `.invalidConfiguration` for the first other option, with the setting, the transport or the place that was
    ///   probably meant.
    func checkOptions(allowed: [String], ignored: [String]) throws(TransportError) {
        let names = allowed + ignored
        let unknown = options.filter { !names.contains($0.name) }
        guard let first = unknown.first else { return }
        let offered = allowed.sorted().joined(separator: ", ")
        let advice = allowed.contains("query") ? " to send it to the server, write \(Self.query(of: unknown));" : ""
        let known = TransportRegistry.standard.transports
        let others = known.filter { $0.hasSetting(first.name) }
        guard others.isEmpty else {
            if others.contains(where: { $0.name == scheme }) {
                throw .configuration(first.name, "is an option of clients; allowed for servers are \(offered)")
            }
            let encrypted = known.first { $0.name == scheme }?.encryptedName
            if let encrypted, others.contains(where: { $0.name == encrypted }) {
                throw .configuration(
                    first.name,
                    "needs an encrypted connection: write \(encrypted):// for \(scheme)://"
                )
            }
            let owners = others.map { "\($0.name)://" }.joined(separator: ", ")
            let problem = "is an option of \(owners);\(advice) allowed for \(scheme):// are \(offered)"
            throw .configuration(first.name, problem)
        }
        let suggestion = ConfigurationValue.suggestion(first.name, names)
        throw .configuration(first.name, "is not known;\(suggestion)\(advice) allowed are \(offered)")
    }

    /// The longest value that an error repeats, in bytes.
    private static let longestValue = 64

    /// Returns the option `query` with which the server gets these options. A value that is long, or that can be the rest of
    /// a password, is left out.
    private static func query(of options: [Option]) -> String {
        let pairs = options.map { option in
            let isShown = option.value.utf8.count <= longestValue && !option.value.utf8.contains(UInt8(ascii: "@"))
            // The query has its own escapes, and is itself the value of an option.
            let value = isShown ? PercentEncoding.encode(PercentEncoding.encode(option.value)) : "…"
            return PercentEncoding.encode("\(PercentEncoding.encode(option.name))=") + value
        }
        return "query=" + pairs.joined(separator: "%26")
    }
}
