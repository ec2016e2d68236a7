import EmulatedNetworks
import TransportAPI
import Workloads

/// Another answer to one question, while all others stay as they are.
struct OtherAnswer: Sendable {
    /// The option that gives it, without its dashes.
    var option: String
    var value: String
    /// The value that it replaces.
    var given: String
    var answers: Answers
    var options: AdviceOptions

    /// All other answers, question by question.
    static func all(_ answers: Answers, _ options: AdviceOptions) -> [OtherAnswer] {
        func others<Value: Answer>(_ option: String, _ property: WritableKeyPath<Answers, Value>) -> [OtherAnswer] {
            let given = answers[keyPath: property]
            return Value.allCases.filter { $0 != given }.map { value in
                var changed = answers
                changed[keyPath: property] = value
                return OtherAnswer(
                    option: option,
                    value: value.rawValue,
                    given: given.rawValue,
                    answers: changed,
                    options: options
                )
            }
        }
        let networks = Network.presets.filter { $0.name != options.network?.name }.compactMap { network in
            var changed = options
            guard (try? changed.assume(network)) != nil else { return nil as OtherAnswer? }
            return OtherAnswer(
                option: "network",
                value: network.name,
                given: options.network?.name ?? "a \(options.assumed)",
                answers: answers,
                options: changed
            )
        }
        return clients(answers, options) + others("messages", \.arrival) + others("path", \.path)
            + others("receivers", \.receivers) + networks + others("workload", \.workload)
    }

    /// Each kind of client alone, and each one added to the given ones or left out.
    private static func clients(_ answers: Answers, _ options: AdviceOptions) -> [OtherAnswer] {
        let given = answers.clients
        let changed = ClientKind.allCases.map { kind in
            given.contains(kind) ? given.filter { $0 != kind } : given + [kind]
        }
        let lists = (ClientKind.allCases.map { [$0] } + changed).filter { !$0.isEmpty }
        var seen: Set<Set<ClientKind>> = [Set(given)]
        return lists.filter { seen.insert(Set($0)).inserted }.map { list in
            var changed = answers
            changed.clients = list
            return OtherAnswer(
                option: "clients",
                value: list.map(\.rawValue).joined(separator: ","),
                given: given.map(\.rawValue).joined(separator: ","),
                answers: changed,
                options: options
            )
        }
    }
}

/// Other answers to one question with which another transport would be first.
struct TurningPoint: Sendable, Equatable {
    var option: String
    var values: [String]
    /// The value that they replace.
    var given: String
    /// The transport that would be first.
    var first: String

    /// Ranks again with each of the other answers, and returns those that change the first transport.
    static func all(
        _ others: [OtherAnswer],
        _ measured: AdviceFigures,
        first: String
    ) throws(TransportError) -> [TurningPoint] {
        var points: [TurningPoint] = []
        for other in others {
            let ranking = Ranking(try Shortlist(other.answers).candidates, measured, other.options, other.answers)
            guard let name = ranking.entries.first?.candidate.name, name != first else { continue }
            if let index = points.firstIndex(where: { $0.option == other.option && $0.first == name }) {
                points[index].values.append(other.value)
            } else {
                points.append(
                    TurningPoint(option: other.option, values: [other.value], given: other.given, first: name)
                )
            }
        }
        return points
    }

    var sentence: String {
        "With --\(option) \(values.joined(separator: " or ")) in place of \(given), \(first) would be first."
    }
}
