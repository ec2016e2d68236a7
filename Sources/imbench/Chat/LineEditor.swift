import CommandSupport

/// Edits one line, as a value without I/O. It takes the bytes of a terminal's keys, and returns finished lines and what to
/// draw.
///
/// | key | effect |
/// |---|---|
/// | Backspace, Delete | deletes a character |
/// | ← →, Home, End, Ctrl-A, Ctrl-E, Ctrl-B, Ctrl-F | move the cursor |
/// | Alt-B, Alt-F, Ctrl-← and Ctrl-→ | move the cursor by a word |
/// | Ctrl-W, Ctrl-U, Ctrl-K | delete a word, to the start, to the end |
/// | ↑ ↓, Ctrl-P, Ctrl-N | show earlier lines |
/// | Ctrl-L | clears the screen |
/// | Ctrl-D | deletes a character; in an empty line, ends the input |
struct LineEditor: Sendable {
    enum Event: Sendable, Equatable {
        /// The user has finished a line.
        case line(String)
        /// The user has ended the input.
        case end
        /// The line is as long as it may be, and a character was ignored.
        case full
        /// The user wants an empty screen.
        case clear
    }

    /// How many earlier lines are kept.
    static let historyLimit = 100
    static let prompt = "> "
    /// The longest sequence of a key that is understood.
    private static let longestSequence = 16

    private enum Input: Sendable {
        case text
        /// The byte ESC has arrived.
        case escape
        /// Part of a control sequence (ECMA-48, section 5.4): its parameters.
        case sequence([UInt8])
        /// ESC O has arrived, after which some terminals send one letter for a key.
        case single
    }

    /// The text on both sides of the cursor.
    private(set) var before = ""
    private(set) var after = ""
    private var input = Input.text
    /// The first bytes of a character of UTF-8.
    private var incomplete: [UInt8] = []
    private var history: [String] = []
    /// The line of the history that is shown, and the line that the user has left for it.
    private var shown: (index: Int, draft: String)?

    /// Takes bytes of the terminal.
    mutating func take(_ bytes: some Sequence<UInt8>) -> [Event] {
        var events: [Event] = []
        for byte in bytes { take(byte, &events) }
        return events
    }

    /// The prompt and the part of the line around the cursor, for a row of this many columns, and the cursor's column,
    /// counted from 0.
    func drawn(columns: Int) -> (row: String, cursor: Int) {
        // The cursor behind the last character needs a column too.
        let room = max(2, columns - Self.prompt.count - 1)
        var visible = before[...]
        var width = visible.columns
        while width > room, let first = visible.popFirst() { width -= first.columns }
        let cursor = Self.prompt.count + width
        var row = Self.prompt + visible
        for character in after {
            width += character.columns
            guard width <= room else { break }
            row.append(character)
        }
        return (row, cursor)
    }

    // MARK: Bytes

    private mutating func take(_ byte: UInt8, _ events: inout [Event]) {
        // A control character ends a sequence that is not complete.
        if byte < 0x20 {
            input = .text
            finishCharacter(&events)
            return control(byte, &events)
        }
        switch input {
        case .text: character(byte, &events)
        case .escape: afterEscape(byte)
        case .single:
            input = .text
            key([], byte)
        case .sequence(var parameters):
            if (0x40...0x7e).contains(byte) {
                input = .text
                key(parameters, byte)
            } else {
                if parameters.count < Self.longestSequence { parameters.append(byte) }
                input = .sequence(parameters)
            }
        }
    }

    private mutating func control(_ byte: UInt8, _ events: inout [Event]) {
        switch byte {
        case 0x0a, 0x0d: events.append(.line(finish()))
        case 0x1b: input = .escape
        case Self.control("D"):
            if before.isEmpty, after.isEmpty { events.append(.end) } else { deleteForward() }
        case Self.control("H"): deleteBackward()
        case Self.control("L"): events.append(.clear)
        case Self.control("A"): moveToStart()
        case Self.control("E"): moveToEnd()
        case Self.control("B"): moveLeft()
        case Self.control("F"): moveRight()
        case Self.control("U"): before = ""
        case Self.control("K"): after = ""
        case Self.control("W"): deleteWord()
        case Self.control("P"): showHistory(-1)
        case Self.control("N"): showHistory(1)
        default: break
        }
    }

    private static func control(_ letter: Unicode.Scalar) -> UInt8 { UInt8(letter.value & 0x1f) }

    private mutating func afterEscape(_ byte: UInt8) {
        input = .text
        switch byte {
        case UInt8(ascii: "["): input = .sequence([])
        case UInt8(ascii: "O"): input = .single
        case UInt8(ascii: "b"): moveByWord(isForward: false)
        case UInt8(ascii: "f"): moveByWord(isForward: true)
        case 0x7f: deleteWord()
        default: break
        }
    }

    /// A key that terminals send as a sequence. Unknown ones have no effect.
    private mutating func key(_ parameters: [UInt8], _ final: UInt8) {
        let isByWord = parameters == Array("1;5".utf8) || parameters == Array("1;3".utf8)
        switch (final, String(decoding: parameters, as: UTF8.self)) {
        case (UInt8(ascii: "A"), ""): showHistory(-1)
        case (UInt8(ascii: "B"), ""): showHistory(1)
        case (UInt8(ascii: "C"), _) where isByWord: moveByWord(isForward: true)
        case (UInt8(ascii: "D"), _) where isByWord: moveByWord(isForward: false)
        case (UInt8(ascii: "C"), ""): moveRight()
        case (UInt8(ascii: "D"), ""): moveLeft()
        case (UInt8(ascii: "H"), ""), (UInt8(ascii: "~"), "1"), (UInt8(ascii: "~"), "7"): moveToStart()
        case (UInt8(ascii: "F"), ""), (UInt8(ascii: "~"), "4"), (UInt8(ascii: "~"), "8"): moveToEnd()
        case (UInt8(ascii: "~"), "3"): deleteForward()
        default: break
        }
    }

    // MARK: Characters

    private mutating func character(_ byte: UInt8, _ events: inout [Event]) {
        if byte < 0x80 {
            finishCharacter(&events)
            if byte == 0x7f { deleteBackward() } else { insert(String(Unicode.Scalar(byte)), &events) }
            return
        }
        let isContinuation = byte & 0xc0 == 0x80
        if !isContinuation { finishCharacter(&events) }
        incomplete.append(byte)
        let lead = incomplete[0]
        let length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1
        if incomplete.count >= length { finishCharacter(&events) }
    }

    /// Inserts the character whose bytes have arrived. Bytes that are no character become U+FFFD.
    private mutating func finishCharacter(_ events: inout [Event]) {
        guard !incomplete.isEmpty else { return }
        let text = String(decoding: incomplete, as: UTF8.self)
        incomplete = []
        insert(text, &events)
    }

    private mutating func insert(_ text: String, _ events: inout [Event]) {
        guard ChatLine.printable(text).unicodeScalars.elementsEqual(text.unicodeScalars) else { return }
        guard before.utf8.count + after.utf8.count + text.utf8.count <= LineInput.longestLine else {
            if events.last != .full { events.append(.full) }
            return
        }
        before += text
    }

    private mutating func finish() -> String {
        let line = before + after
        (before, after, shown) = ("", "", nil)
        if !line.isEmpty, line != history.last {
            if history.count >= Self.historyLimit { history.removeFirst() }
            history.append(line)
        }
        return line
    }

    // MARK: Editing

    private mutating func deleteBackward() { _ = before.popLast() }
    private mutating func deleteForward() { if !after.isEmpty { after.removeFirst() } }

    private mutating func moveLeft() { if let last = before.popLast() { after.insert(last, at: after.startIndex) } }
    private mutating func moveRight() { if !after.isEmpty { before.append(after.removeFirst()) } }

    private mutating func moveToStart() { (before, after) = ("", before + after) }
    private mutating func moveToEnd() { (before, after) = (before + after, "") }

    /// Moves over spaces, and then over a word.
    private mutating func moveByWord(isForward: Bool) {
        for isSpace in [true, false] {
            while (isForward ? after.first : before.last)?.isWhitespace == isSpace {
                if isForward { moveRight() } else { moveLeft() }
            }
        }
    }

    private mutating func deleteWord() {
        while before.last?.isWhitespace == true { before.removeLast() }
        while before.last?.isWhitespace == false { before.removeLast() }
    }

    private mutating func showHistory(_ step: Int) {
        let present = shown?.index ?? history.count
        let index = present + step
        guard history.indices.contains(index) || index == history.count && shown != nil else { return }
        let draft = shown?.draft ?? before + after
        shown = index == history.count ? nil : (index, draft)
        (before, after) = (index == history.count ? draft : history[index], "")
    }
}
