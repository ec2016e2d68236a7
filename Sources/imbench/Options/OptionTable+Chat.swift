import TransportAPI

/// Who talks, and where.
struct ChatOptions: Sendable, Hashable {
    /// Where the chat server is; `nil` if the configuration file says it.
    var url: Endpoint?
    var name = ""
    var room = "lobby"
    /// Whether `serve` runs chat servers.
    var isServed = false
}

extension OptionTable {
    /// What `imbench chat` and `imbench serve --chat` take.
    static let chat: [OptionRow] = [
        OptionRow(
            name: "name",
            placeholder: "NAME",
            group: .what,
            commands: [.chat],
            summary: "who you are to the others",
            shown: { $0.chat.name.isEmpty ? nil : $0.chat.name },
            apply: { (options, text, _) throws(UsageError) in options.chat.name = try chatName(text, "name") }
        ),
        OptionRow(
            name: "room",
            placeholder: "ROOM",
            group: .what,
            commands: [.chat],
            summary: "where to talk; over MQTT the topic imbench/chat/ROOM",
            shown: { $0.chat.room },
            apply: { (options, text, _) throws(UsageError) in options.chat.room = try chatName(text, "room") }
        ),
        OptionRow(
            name: "chat",
            group: .what,
            commands: [.serve],
            summary: "serve one chat room on all transports in place of echoes",
            shown: { $0.chat.isServed ? "yes" : nil },
            apply: { (options, _, _) throws(UsageError) in options.chat.isServed = true }
        ),
        OptionRow(
            name: "config",
            placeholder: "FILE",
            group: .what,
            commands: [.run, .chat, .serve],
            summary:
                "a configuration file (Docs/configuration.md): endpoints and codec; of a chat, also its supervisor; to serve: where",
            excludes: "listen",
            shown: { $0.config },
            apply: { (options, text, _) throws(UsageError) in
                guard !text.isEmpty else { throw UsageError("--config needs the name of a file") }
                options.config = text
            }
        ),
    ]

    /// Checks what the options of a chat say together.
    static func finishChat(
        _ options: inout Options,
        _ given: Set<String>,
        _ vocabulary: Vocabulary
    ) throws(UsageError) {
        guard options.arguments.count <= 1 else {
            throw UsageError("'chat' takes one URL, but got '\(options.arguments[1])' as well")
        }
        if let url = options.arguments.first {
            options.chat.url = try OptionValue.endpoint(url, "url", schemes: vocabulary.transports)
        } else if options.config == nil {
            throw UsageError("'chat' needs a URL: imbench chat ws://127.0.0.1:8080 --name ann")
        }
        guard !options.chat.name.isEmpty else { throw UsageError("'chat' needs a name: --name ann") }
        guard !options.isCodecGiven || options.codecs.count == 1 else {
            throw UsageError("--codec: a chat has one codec, not \(options.codecs.count)")
        }
    }

    /// A word that can be shown in one line and be a level of a topic.
    private static func chatName(_ text: String, _ option: String) throws(UsageError) -> String {
        let isPlain = text.unicodeScalars.allSatisfy {
            $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) && !"+#/".unicodeScalars.contains($0)
        }
        guard (1...64).contains(text.utf8.count), isPlain, ChatLine.printable(text) == text else {
            throw UsageError(
                "--\(option): '\(ChatLine.printable(text))' is not 1 to 64 bytes without + # / and controls"
            )
        }
        return text
    }
}
