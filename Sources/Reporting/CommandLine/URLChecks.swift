import CommandSupport
import TransportAPI
import Transports
import TrialCertificates

/// Checks the options of a URL before anything is measured or started.
package func checkURL(_ endpoint: Endpoint, _ place: String, _ registry: TransportRegistry) throws(UsageError) {
    try UsageError.translate("\(place) \(endpoint.address)") { () throws(TransportError) in
        _ = try registry.transport(for: endpoint)
    }
}

/// Refuses plain URLs beside `--tls`, which encrypts only what the command itself chooses.
package func refusePlain(_ endpoints: [Endpoint], usesTLS: Bool) throws(UsageError) {
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
package func failure(_ error: TransportError, at url: String, _ option: String) -> any Error {
    let address = (try? Endpoint(url).address) ?? url
    if error.code == .invalidConfiguration { return UsageError("\(option) \(address): \(error.reason)") }
    // Such an error names the URL.
    if error.phase == .listen { return SystemFailure(error.reason) }
    return SystemFailure("\(address): \(error.sentence)")
}

extension Endpoint {
    /// The URL without its options, which are long and may be secret.
    package var address: String {
        var endpoint = self
        endpoint.options = []
        return endpoint.description
    }
}
