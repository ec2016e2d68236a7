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

    /// The answers, of which the command line may have given some.
    func answers(_ options: AdviceOptions) throws(UsageError) -> Answers {
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
        if options.path == nil {
            let question = "Is the network your own, the internet, or that of a company with a proxy?"
            answers.path = try answer(4, question, SettingFormat<PathKind>.word, usual: answers.path)
        }
        if options.receivers == nil {
            let question = "Who receives a message: one peer, the members of a room, the subscribers of a topic?"
            answers.receivers = try answer(5, question, SettingFormat<Receivers>.word, usual: answers.receivers)
        }
        return answers
    }

    private func answer<Value>(
        _ number: Int,
        _ question: String,
        _ format: SettingFormat<Value>,
        usual: Value
    ) throws(UsageError) -> Value {
        var mistake = ""
        for _ in 0..<Self.attempts {
            let question = question.hasSuffix("\n") ? question : question + "\n"
            let choice = "   \(format.words.joined(separator: ", ")) [\(format.text(usual) ?? "")]: "
            guard let line = ask("\(mistake)\(number)/\(total) \(question)\(choice)") else {
                throw UsageError("'advise': the input has ended before question \(number) was answered")
            }
            let text = line.trimmingCharacters(in: .whitespaces)
            if text.isEmpty { return usual }
            do throws(TransportError) {
                return try format.read(text, key: "answer")
            } catch {
                mistake = error.reason + "\n"
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
            case .tooLong: return ""
            case .nothing: continue
            case .end: return nil
            }
        }
        return nil
    }
}
