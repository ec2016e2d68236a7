import TransportAPI
import Transports

/// Reads a configuration file.
///
/// - Throws: `.invalidConfiguration` with the file, the line and what is allowed there; or that the file can't be read.
func readConfiguration(_ path: String) throws(TransportError) -> TransportConfiguration {
    guard let text = readFile(path, limit: 1 << 20) else {
        throw TransportError(
            .invalidConfiguration,
            .configure,
            "\(path): there is no such file of at most 1 MiB to read"
        )
    }
    return try TransportConfiguration(json: text.utf8, label: path)
}

extension Options {
    /// With what the configuration file says about a comparison: its endpoints as outside servers, and its codec unless the
    /// command line names some.
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

/// Says what is wrong with a configuration, as it is.
func complain(_ error: TransportError) -> Int32 {
    writeAll(2, error.reason + "\n")
    return ExitStatus.usage
}
