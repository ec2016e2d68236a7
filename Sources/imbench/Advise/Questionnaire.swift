import Foundation
import TransportAPI
import Transports

/// Asks the five questions of `imbench advise`, one line each. An empty line takes the usual answer.
struct Questionnaire {
    /// How often a question is asked before the command gives up.
    private static let attempts = 5

    /// Shows a text, and returns the user's next line; `nil` at the end of the input.
    var ask: (String) -> String?
    private let total = 5

    init(ask: @escaping (String) -> String?) {
        self.ask = ask
    }

    /// The answers, of which the command line may have given some. An answer about the network may also set what is assumed
    /// of it.
    func answers(_ options: inout AdviceOptions) throws(UsageError) -> Answers {
        let kinds = Workload.allCases.map { "   \($0.rawValue.padded(to: 10)) \($0.meaning)\n" }.joined()
        let workload = try answer(
            1,
            "Which app is the most similar?\n\(kinds)",
            SettingFormat<Workload>.word,
            usual: .chat
        )
        var answers = Answers(workload, options)
        if options.clients.isEmpty {
            let question = "Where do clients run? (several with commas between them)"
            let format = SettingFormat<[ClientKind]>.commaSeparated(SettingFormat<ClientKind>.word)
            answers.clients = try answer(2, question, format, usual: answers.clients)
        }
        if options.arrival == nil {
            answers.arrival = try answer(
                3,
                "Must each message arrive soon, may it be late, or may it be lost?",
                SettingFormat<Arrival>.word,
                usual: answers.arrival
            )
        }
        if options.path == nil { answers.path = try path(&options, usual: answers.path) }
        if options.receivers == nil {
            let question = "Who receives a message: one peer, the members of a room, the subscribers of a topic?"
            answers.receivers = try answer(5, question, SettingFormat<Receivers>.word, usual: answers.receivers)
        }
        return answers
    }

    /// Asks for the kind of network, and for what is assumed of it unless the command line says that.
    private func path(_ options: inout AdviceOptions, usual: PathKind) throws(UsageError) -> PathKind {
        let question = "Is the network your own, the internet, or that of a company with a proxy?"
        let format = SettingFormat<PathKind>.word
        let isAssumed =
            options.network == nil && options.roundTrip == AdviceOptions.usualRoundTrip
            && options.loss == AdviceOptions.usualLoss
        guard isAssumed else { return try answer(4, question, format, usual: usual) }
        let names = Network.presets.map(\.name).joined(separator: ", ")
        let more =
            "\(question) Which one is it like: \(names)?\n   Answer with one or both, as in 'internet,4g'. "
            + "Without the second, \(options.assumed) is assumed.\n"
        return try answer(4, more, format.words, format.text(usual) ?? "", usual: usual) { text throws(UsageError) in
            let parts = text.split(separator: ",", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
            var (kind, rest) = (usual, parts)
            if let first = parts.first, let given = PathKind(rawValue: first.lowercased()) {
                kind = given
                rest.removeFirst()
            } else if let first = parts.first, !Network.isLikely(first) {
                throw .unknown("answer", first, allowed: format.words + Network.presets.map(\.name))
            }
            // A description has commas of its own.
            let network = rest.joined(separator: ",")
            if !network.isEmpty { try options.assume(try Network(network)) }
            return kind
        }
    }

    private func answer<Value>(
        _ number: Int,
        _ question: String,
        _ format: SettingFormat<Value>,
        usual: Value
    ) throws(UsageError) -> Value {
        try answer(number, question, format.words, format.text(usual) ?? "", usual: usual) { text throws(UsageError) in
            do throws(TransportError) {
                return try format.read(text, key: "answer")
            } catch {
                throw UsageError(error.reason)
            }
        }
    }

    /// Asks until `read` accepts the line.
    private func answer<Value>(
        _ number: Int,
        _ question: String,
        _ words: [String],
        _ usualText: String,
        usual: Value,
        _ read: (String) throws(UsageError) -> Value
    ) throws(UsageError) -> Value {
        var mistake = ""
        for _ in 0..<Self.attempts {
            let question = question.hasSuffix("\n") ? question : question + "\n"
            let choice = "   \(words.joined(separator: ", ")) [\(usualText)]: "
            guard let line = ask("\(mistake)\(number)/\(total) \(question)\(choice)") else {
                throw UsageError("'advise': the input has ended before question \(number) was answered")
            }
            let text = line.trimmingCharacters(in: .whitespaces)
            if text.isEmpty { return usual }
            do throws(UsageError) {
                return try read(text)
            } catch {
                mistake = error.message + "\n"
            }
        }
        throw UsageError("'advise': \(mistake.dropLast())")
    }
}

/// The lines of a terminal, one after the other.
final class TerminalLines {
    private var input = LineInput(STDIN_FILENO)

    /// Shows a text on standard error, and waits for a line. Returns `nil` at the end of the input, or after Ctrl-C.
    func ask(_ text: String) -> String? {
        writeAll(STDERR_FILENO, text)
        while !Interruption.isRequested {
            switch input.next(timeout: 100) {
            case .line(let line): return line
            case .tooLong: writeAll(STDERR_FILENO, "This line is too long.\n\(text)")
            case .nothing: continue
            case .end: return nil
            }
        }
        return nil
    }
}
