import CommandSupport
import EmulatedNetworks
import Foundation
import TransportAPI

/// The answers to one question, in the order of their numbers.
struct Choices {
    private var names: [String]
    private var meanings: [String]

    init<Value: Answer>(_: Value.Type) {
        names = Value.allCases.map(\.rawValue)
        meanings = Value.allCases.map(\.meaning)
    }

    init(_ networks: [Network]) {
        names = networks.map(\.name)
        meanings = networks.map { AdviceOptions.figures(roundTrip: $0.delay * 2, loss: $0.loss) }
    }

    /// A line for each answer.
    var lines: String {
        let width = names.map(\.count).max() ?? 0
        return zip(names, meanings).enumerated().map { index, entry in
            "   \(index + 1) \(entry.0.padded(to: width))  \(entry.1)\n"
        }
        .joined()
    }

    /// The place of the answer that a user has typed: its name, its number, or the beginning of its name.
    func pick(_ text: String) throws(UsageError) -> Int {
        let typed = text.lowercased()
        let quoted = String(text.prefix(40)).debugDescription
        if let exact = names.firstIndex(of: typed) { return exact }
        if let number = Int(typed) {
            guard (1...names.count).contains(number) else {
                throw UsageError("\(quoted) is none of the numbers; type 1 to \(names.count)")
            }
            return number - 1
        }
        let matches = names.indices.filter { names[$0].hasPrefix(typed) }
        guard matches.count != 1 else { return matches[0] }
        if !matches.isEmpty {
            let list = matches.map { names[$0] }.joined(separator: " or ")
            throw UsageError("\(quoted) may be \(list); type more of it, or its number")
        }
        let near = spellingSuggestion(for: text, in: names).map { " did you mean \($0)?" } ?? ""
        throw UsageError(
            "\(quoted) is none of the answers;\(near) type a number from 1 to \(names.count), or the beginning of "
                + names.joined(separator: ", ")
        )
    }
}

/// Asks the questions of `imbench advise`, one line each. An empty line takes the usual answer.
struct Questionnaire {
    /// How often a question is asked before the command gives up.
    private static let attempts = 5
    private static let total = 6

    /// Shows a text, and returns the user's next line; `nil` at the end of the input.
    var ask: (String) -> String?

    init(ask: @escaping (String) -> String?) {
        self.ask = ask
    }

    /// The answers, of which the command line may have given some. The network that a user names is assumed in `options`.
    func answers(_ options: inout AdviceOptions) throws(UsageError) -> Answers {
        let workload = try one(1, "workload", "Which app is the most similar?", usual: Workload.chat)
        var answers = Answers(workload, options)
        if options.clients.isEmpty { answers.clients = try clients(usual: answers.clients) }
        if options.arrival == nil {
            answers.arrival = try one(3, "messages", "Which messages must arrive?", usual: answers.arrival)
        }
        if options.path == nil { answers.path = try one(4, "path", "Whose network is it?", usual: answers.path) }
        if options.assumesUsualNetwork { options = try network(options) }
        if options.receivers == nil {
            answers.receivers = try one(6, "receivers", "Who receives a message?", usual: answers.receivers)
        }
        return answers
    }

    private func one<Value: Answer>(
        _ number: Int,
        _ option: String,
        _ question: String,
        usual: Value
    ) throws(UsageError) -> Value {
        let choices = Choices(Value.self)
        let text = "\(question)\n\(choices.lines)   number or name [\(usual.rawValue)]: "
        let answer = try answer(number, option, text) { line throws(UsageError) in
            Array(Value.allCases)[try choices.pick(line)]
        }
        return answer ?? usual
    }

    private func clients(usual: [ClientKind]) throws(UsageError) -> [ClientKind] {
        let choices = Choices(ClientKind.self)
        let names = usual.map(\.rawValue).joined(separator: ",")
        let text = "Where do clients run?\n\(choices.lines)   numbers or names, with commas between them [\(names)]: "
        let answer = try answer(2, "clients", text) { line throws(UsageError) in
            var kinds: [ClientKind] = []
            let parts = line.split(separator: ",")
            for part in parts.isEmpty ? [line[...]] : parts {
                let kind = ClientKind.allCases[try choices.pick(part.trimmingCharacters(in: .whitespaces))]
                if !kinds.contains(kind) { kinds.append(kind) }
            }
            return kinds
        }
        return answer ?? usual
    }

    /// The options with the network that the user names.
    private func network(_ options: AdviceOptions) throws(UsageError) -> AdviceOptions {
        let choices = Choices(Network.presets)
        let text =
            "Which network is it like?\n\(choices.lines)   number or name, or a description such as "
            + "'delay=50ms,loss=2%'\n   [\(options.assumed)]: "
        let answer = try answer(5, "network", text) { line throws(UsageError) in
            // A description is read as on the command line.
            let network = line.contains("=") ? try Network(line) : Network.presets[try choices.pick(line)]
            var changed = options
            try changed.assume(network)
            return changed
        }
        return answer ?? options
    }

    /// Asks until `read` accepts the line. Returns `nil` for an empty line.
    private func answer<Value>(
        _ number: Int,
        _ option: String,
        _ question: String,
        _ read: (String) throws(UsageError) -> Value
    ) throws(UsageError) -> Value? {
        var mistake = ""
        for _ in 0..<Self.attempts {
            guard let line = ask("\(mistake)\(number)/\(Self.total) \(question)") else {
                throw UsageError(
                    "'advise': the input has ended before question \(number) was answered; answer it, or give --\(option)"
                )
            }
            let text = line.trimmingCharacters(in: .whitespaces)
            if text.isEmpty { return nil }
            do throws(UsageError) {
                return try read(text)
            } catch {
                mistake = error.message + "\n"
            }
        }
        throw UsageError(
            "'advise': no answer to question \(number) in \(Self.attempts) attempts: \(mistake.dropLast())"
        )
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
            case .end: return endLine()
            }
        }
        return endLine()
    }

    /// Ends the line of the question, which no key of the user has ended.
    private func endLine() -> String? {
        writeAll(STDERR_FILENO, "\n")
        return nil
    }
}
