import Protocols
import TransportAPI
import Transports

/// A mistake in the command line: one line with the option or command, the value, and the allowed values. The program ends
/// with status 64 (EX_USAGE of sysexits.h).
struct UsageError: Error, Sendable, Hashable {
    /// The sentence, without the program's name.
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// The value `text` of an option was not read.
    init(_ error: TransportError, option name: String, _ text: String) {
        message = error.reason
        // Errors of a URL do not quote it. They can, unless it may contain a password.
        let prefix = "--\(name): "
        if message.hasPrefix(prefix), !text.contains("@"), !text.contains("?") {
            message = "--\(name) \(text.debugDescription): \(message.dropFirst(prefix.count))"
        }
    }

    /// `word` is not in `allowed`. The sentence suggests the nearest one.
    ///
    /// - Parameter place: the option or command that has the word.
    static func unknown(_ kind: String, _ word: String, of place: String? = nil, allowed: [String]) -> UsageError {
        let near = spellingSuggestion(for: word, in: allowed).map { " did you mean '\($0)'?" } ?? ""
        let place = place.map { $0 + ": " } ?? ""
        return UsageError("\(place)unknown \(kind) '\(word)';\(near) allowed is \(allowed.joined(separator: ", "))")
    }

    /// Two options that must not be given together.
    static func exclusion(_ option: String, _ other: String) -> UsageError {
        UsageError("--\(option) and --\(other) exclude each other")
    }

    /// Calls `read`, whose errors are mistakes in the value of an option, or in the arguments of a command.
    static func translate<Value>(
        _ place: String,
        _ read: () throws(TransportError) -> Value
    ) throws(UsageError) -> Value {
        do throws(TransportError) { return try read() } catch { throw UsageError("\(place): \(error.reason)") }
    }
}

/// Checks the options of a URL before anything is measured or started.
func checkURL(_ endpoint: Endpoint, _ place: String, _ registry: TransportRegistry) throws(UsageError) {
    try UsageError.translate("\(place) \(endpoint.address)") { () throws(TransportError) in
        _ = try registry.transport(for: endpoint)
    }
}

/// Refuses plain URLs beside `--tls`, which encrypts only what the command itself chooses.
func refusePlain(_ endpoints: [Endpoint], usesTLS: Bool) throws(UsageError) {
    guard usesTLS else { return }
    for endpoint in endpoints {
        let transport = TransportRegistry.available.transports.first { $0.name == endpoint.scheme }
        guard let encrypted = transport?.encryptedName else { continue }
        throw UsageError(
            "--tls does not encrypt \(endpoint.address): write \(encrypted):// in place of \(endpoint.scheme)://"
        )
    }
}

/// The error of a server or a client at a URL that an option names: wrong usage if the URL is wrong.
func failure(_ error: TransportError, at url: String, _ option: String) -> any Error {
    let address = (try? Endpoint(url).address) ?? url
    if error.code == .invalidConfiguration { return UsageError("\(option) \(address): \(error.reason)") }
    // Such an error names the URL.
    if error.phase == .listen { return SystemFailure(error.reason) }
    return SystemFailure("\(address): \(error.sentence)")
}

extension Endpoint {
    /// The URL without its options, which are long and may be secret.
    var address: String {
        var endpoint = self
        endpoint.options = []
        return endpoint.description
    }
}
