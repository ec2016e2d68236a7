import Protocols
import SocketIO
import TransportAPI
import Transports
import TrialCertificates
import Workloads

/// A transport that `imbench advise` can recommend.
struct Candidate: Sendable {
    /// Its name in reports, as in `imbench run`.
    var name: String
    /// How it is measured.
    var descriptor: TransportDescriptor
    /// The scheme of its URLs.
    var scheme: String
    /// The options of its URLs that distinguish it from others with the same scheme.
    var options: [Endpoint.Option] = []
    var capabilities: Capabilities

    /// Whether it is a part of HTTP, at HTTP's ports. Browsers and HTTP proxies let nothing else pass.
    var isWeb: Bool { descriptor.defaultPort == 80 || descriptor.defaultPort == 443 }

    /// Whether messages must arrive and no broker confirms them, so that session mode is needed.
    func needsSession(_ answers: Answers) -> Bool { answers.arrival != .mayBeLost && !capabilities.routesByTopic }

    /// All candidates on this machine. A datagram transport has a second one, in its reliable mode.
    static func all(_ answers: Answers) throws(TransportError) -> [Candidate] {
        var candidates: [Candidate] = []
        for descriptor in TransportRegistry.available.transports
        where descriptor.defaultPort != nil && !descriptor.isOnRequest {
            candidates.append(try Candidate(descriptor, scheme: descriptor.name))
            guard descriptor.isDatagram else { continue }
            let mode = Endpoint.Option(name: "reliable", value: answers.isOrdered ? "ordered" : "unordered")
            // The names of the same modes in `imbench run`.
            let suffix = answers.isOrdered ? "-reliable" : "-unordered"
            candidates.append(try Candidate(descriptor.with(mode, suffix), scheme: descriptor.name, [mode]))
        }
        return candidates
    }

    private init(
        _ descriptor: TransportDescriptor,
        scheme: String,
        _ options: [Endpoint.Option] = []
    ) throws(TransportError) {
        (name, self.descriptor, self.scheme, self.options) = (descriptor.name, descriptor, scheme, options)
        // A transport knows its capabilities before it connects.
        capabilities = try descriptor.make(try Endpoint("\(scheme)://127.0.0.1/"), ConnectionContext()).capabilities
    }
}

extension TransportDescriptor {
    /// The reliable mode of a datagram transport, under its own name.
    fileprivate func with(_ mode: Endpoint.Option, _ suffix: String) -> TransportDescriptor {
        var descriptor = self
        let make = make
        descriptor.name += suffix
        (descriptor.cores, descriptor.annotate) = (nil, nil)
        descriptor.make = { (endpoint, context) throws(TransportError) in
            var endpoint = endpoint
            endpoint.options.append(mode)
            return try make(endpoint, context)
        }
        return descriptor
    }
}

/// A reason for which some candidates cannot be used at all.
struct Exclusion: Sendable {
    /// The names of the candidates.
    var candidates: [String]
    var reason: String
    /// The source of the reason, with its year.
    var source: String

    /// All reasons that apply to the answers.
    static func all(_ answers: Answers, _ candidates: [Candidate]) -> [Exclusion] {
        let rules: [(applies: Bool, isExcluded: (Candidate) -> Bool, reason: String, source: String)] = [
            (
                answers.clients.contains(.browsers),
                { !$0.isWeb },
                "a page in a browser opens no raw TCP or UDP connections",
                "WICG, Direct Sockets explainer, 2024"
            ),
            (
                answers.path != .own,
                { !$0.descriptor.isEncrypted },
                "without encryption, each network on the path can read and change messages",
                "RFC 7258, 2014; RFC 6455, 2011, section 10.6"
            ),
            (
                answers.path == .company,
                \.descriptor.isDatagram,
                "the CONNECT of an HTTP proxy carries TCP only",
                "RFC 9298, 2022, section 1"
            ),
            (
                answers.arrival != .mayBeLost,
                { !$0.capabilities.isReliable },
                "a lost datagram is not sent again; the reliable mode repeats it",
                "RFC 768, 1980"
            ),
        ]
        return rules.filter(\.applies).compactMap { rule in
            let names = candidates.filter(rule.isExcluded).map(\.name)
            return names.isEmpty ? nil : Exclusion(candidates: names, reason: rule.reason, source: rule.source)
        }
    }
}

/// The candidates that some answers leave, and those that they exclude.
struct Shortlist: Sendable {
    var candidates: [Candidate]
    var exclusions: [Exclusion]

    init(_ answers: Answers) throws(TransportError) {
        let all = try Candidate.all(answers)
        exclusions = Exclusion.all(answers, all)
        let excluded = Set(exclusions.flatMap(\.candidates))
        candidates = all.filter { !excluded.contains($0.name) }
    }

    /// The candidates that any of the answers leave, each once.
    static func candidates(of answers: [Answers]) throws(TransportError) -> [Candidate] {
        var all: [Candidate] = []
        for answers in answers {
            let more = try Shortlist(answers).candidates
            all += more.filter { candidate in !all.contains { $0.name == candidate.name } }
        }
        return all
    }
}
