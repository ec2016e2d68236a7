import CommandSupport
import TransportAPI
import Transports

/// Reads a configuration file.
///
/// - Throws: `.invalidConfiguration` with the file, the line and what is allowed, or because the file cannot be read.
package func readConfiguration(_ path: String) throws(TransportError) -> TransportConfiguration {
    try TransportConfiguration(json: readInput(path, limit: 1 << 20).utf8, label: path)
}

/// The text of a file that the command line names.
///
/// - Throws: `.invalidConfiguration` with the file and the reason.
package func readInput(_ path: String, limit: Int) throws(TransportError) -> String {
    do throws(SystemFailure) {
        return try readText(path, limit: limit)
    } catch {
        throw TransportError(.invalidConfiguration, .configure, error.message)
    }
}
