import Protocols
import TransportAPI
import Transports

/// Reads a configuration file.
///
/// - Throws: `.invalidConfiguration` with the file, the line and what is allowed, or because the file cannot be read.
func readConfiguration(_ path: String) throws(TransportError) -> TransportConfiguration {
    guard let text = readFile(path, limit: 1 << 20) else {
        throw TransportError(
            .invalidConfiguration,
            .configure,
            "\(path): there is no such readable file of at most 1 MiB"
        )
    }
    return try TransportConfiguration(json: text.utf8, label: path)
}

extension Options {
    /// The options of a comparison with those of the configuration file: its endpoints as outside servers, and its codec unless
    /// the command line names codecs.
    func withConfiguredServers() throws(TransportError) -> Options {
        guard let config else { return self }
        let configuration = try readConfiguration(config)
        var options = self
        options.urls = []
        for endpoint in configuration.endpoints {
            guard !options.urls.contains(where: { $0.scheme == endpoint.scheme }) else {
                throw TransportError(
                    .invalidConfiguration,
                    .configure,
                    "\(config): \"endpoints\" has two servers for \(endpoint.scheme); one of each transport can be measured"
                )
            }
            options.urls.append(endpoint)
        }
        options.transports = options.urls.map(\.scheme)
        if !isCodecGiven { options.codecs = [configuration.codec.name] }
        return options
    }
}

/// Writes the reason of a configuration error to standard error.
func complain(_ error: TransportError) -> Int32 {
    writeAll(2, error.reason + "\n")
    return ExitStatus.usage
}
