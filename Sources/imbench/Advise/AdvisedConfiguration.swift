import Protocols
import Reporting
import TransportAPI
import Transports

/// The configuration file that `imbench advise` recommends.
struct AdvisedConfiguration: Sendable {
    /// The recommended transport, and behind it the fallback.
    var endpoints: [Endpoint]
    /// Why there is a fallback; `nil` if there is none.
    var fallbackReason: String?
    private let answers: Answers
    private let isBrokered: Bool

    /// The recommendation of a ranking; `nil` if nothing is left.
    init?(_ ranking: Ranking, _ answers: Answers, host: String) {
        guard let first = ranking.entries.first?.candidate else { return nil }
        self.answers = answers
        isBrokered = first.capabilities.routesByTopic
        endpoints = [Self.endpoint(first, answers, host)]
        // A session cannot move between a broker and a server, so the fallback is of the same kind.
        guard answers.path != .own, !first.isWeb,
            let fallback = ranking.entries.map(\.candidate).first(where: {
                $0.isWeb && $0.capabilities.routesByTopic == first.capabilities.routesByTopic
            })
        else { return }
        endpoints.append(Self.endpoint(fallback, answers, host))
        fallbackReason =
            "\(fallback.name) stands behind \(first.name) for networks that block "
            + (first.descriptor.isDatagram
                ? "UDP: 3 to 5 % do (RFC 9308, 2022, section 2; data of 2016)." : "other ports than 80 and 443.")
    }

    private static func endpoint(_ candidate: Candidate, _ answers: Answers, _ host: String) -> Endpoint {
        var options = candidate.options
        if candidate.capabilities.routesByTopic {
            let topic = "\(answers.workload.rawValue)/1"
            options += [.init(name: "publish", value: topic), .init(name: "subscribe", value: topic)]
            if answers.arrival != .mayBeLost {
                // Without a kept session, the broker drops what it has for a client that is away.
                options.append(.init(name: "qos", value: "1"))
                options.append(.init(name: "clean-session", value: "off"))
                options.append(.init(name: "client-id", value: "\(answers.workload.rawValue)-client-1"))
            }
        }
        if answers.path == .company, !candidate.descriptor.isDatagram {
            options.append(.init(name: "proxy", value: "environment"))
        }
        return Endpoint(scheme: candidate.scheme, host: host, path: "/", options: options)
    }

    /// Messages must arrive, and no broker confirms them.
    private var needsSession: Bool { answers.arrival != .mayBeLost && !isBrokered }

    var json: ReportValue {
        var members: [(String, ReportValue)] = [
            ("endpoints", .array(endpoints.map { .string($0.description) })),
            ("codec", .string(answers.codec.name)),
        ]
        if needsSession { members.append(("delivery", .object([("mode", .string("session"))]))) }
        if answers.arrival == .mayBeLost {
            let outbox = [("age", ReportValue.string("2s")), ("when-full", .string("drop-oldest"))]
            members.append(("outbox", .object(outbox)))
        }
        return .object(members)
    }

    /// The lines of the file, with one endpoint on each.
    var lines: [String] {
        guard case .object(let members) = json else { return [] }
        let texts = members.map { name, value in
            guard case .array(let elements) = value else { return "  \(name.debugDescription): \(value.text)" }
            let list = elements.map { "    " + $0.text }.joined(separator: ",\n")
            return "  \(name.debugDescription): [\n\(list)\n  ]"
        }
        return "{\n\(texts.joined(separator: ",\n"))\n}".split(separator: "\n").map { String($0) }
    }

    /// The text of the file.
    var text: String { lines.joined(separator: "\n") + "\n" }

    /// Why the file is as it is.
    var sentences: [String] {
        var sentences: [String] = []
        if let fallbackReason { sentences.append(fallbackReason) }
        if needsSession {
            sentences.append(
                "In the delivery mode 'session' the supervisor sends a message again until the server has acknowledged it. "
                    + "The server must be a session server."
            )
        }
        if isBrokered, answers.arrival != .mayBeLost {
            sentences.append(
                "With qos=1 and clean-session=off the broker confirms each message, and keeps it while a client is away. "
                    + "Replace the topic by your own, and give each client a client-id of its own."
            )
        } else if isBrokered {
            sentences.append("Replace the topic by your own.")
        }
        if answers.arrival == .mayBeLost {
            sentences.append("A message that could not be sent for 2 s is dropped, because a newer one replaces it.")
        }
        return sentences
    }
}
