import Testing

@testable import CommandSupport
@testable import imbench

@Suite("The line editor of the chat")
struct LineEditorTests {
    private static let (left, right, up, down) = ("\u{1b}[D", "\u{1b}[C", "\u{1b}[A", "\u{1b}[B")

    private func edited(_ keys: String...) -> LineEditor {
        var editor = LineEditor()
        for key in keys { #expect(editor.take(key.utf8).isEmpty) }
        return editor
    }

    @Test("Text is inserted at the cursor, whatever its script, whole and byte by byte")
    func insertion() {
        let editor = edited("gr", "üße 世界 👩‍👩‍👧 e\u{301}")
        #expect(editor.before == "grüße 世界 👩‍👩‍👧 e\u{301}" && editor.after.isEmpty)
        #expect(edited("世界", Self.left, "新").before == "世新")
        var bytewise = LineEditor()
        for byte in "a→世👋".utf8 { #expect(bytewise.take([byte]).isEmpty) }
        #expect(bytewise.before == "a→世👋")
    }

    @Test("Backspace deletes a whole character, also if it has several code points")
    func backspace() {
        #expect(edited("ab世", "\u{7f}").before == "ab")
        #expect(edited("a👩‍👩‍👧", "\u{7f}").before == "a")
        #expect(edited("ae\u{301}", "\u{8}").before == "a")
        #expect(edited("\u{7f}\u{7f}").before.isEmpty)
    }

    @Test("Arrows, Home, End and their control keys move the cursor, in each spelling of the terminals")
    func moves() {
        for home in ["\u{1b}[H", "\u{1b}OH", "\u{1b}[1~", "\u{1b}[7~", "\u{1}"] {
            let editor = edited("abc", home)
            #expect(editor.before.isEmpty && editor.after == "abc")
            for end in ["\u{1b}[F", "\u{1b}OF", "\u{1b}[4~", "\u{1b}[8~", "\u{5}"] {
                #expect(edited("abc", home, end).before == "abc")
            }
        }
        for (left, right) in [(Self.left, Self.right), ("\u{1b}OD", "\u{1b}OC"), ("\u{2}", "\u{6}")] {
            let editor = edited("abc", left, left, right)
            #expect(editor.before == "ab" && editor.after == "c")
        }
        for (back, forward) in [("\u{1b}b", "\u{1b}f"), ("\u{1b}[1;5D", "\u{1b}[1;5C")] {
            #expect(edited("one two  three", back, back).before == "one ")
            #expect(edited("one two", "\u{1}", forward).before == "one")
        }
    }

    @Test("Delete, Ctrl-D, Ctrl-W, Ctrl-U and Ctrl-K delete their part of the line")
    func deletion() {
        for delete in ["\u{1b}[3~", "\u{4}"] {
            let editor = edited("abc", "\u{1}", delete)
            #expect(editor.before.isEmpty && editor.after == "bc")
        }
        #expect(edited("one two ", "\u{17}").before == "one ")
        #expect(edited("one two", Self.left, "\u{15}").after == "o")
        let editor = edited("one", Self.left, "\u{b}")
        #expect(editor.before == "on" && editor.after.isEmpty)
    }

    @Test("Enter finishes the line, and Ctrl-D in an empty line ends the input")
    func finish() {
        var editor = LineEditor()
        #expect(editor.take("hi\(Self.left)o\rnext\n\u{4}".utf8) == [.line("hoi"), .line("next"), .end])
        #expect(editor.take("\n".utf8) == [.line("")])
        #expect(editor.take("\u{c}".utf8) == [.clear])
    }

    @Test("The arrows show earlier lines, and the line that was left for them returns")
    func history() {
        var editor = edited(Self.up, Self.down)
        _ = editor.take("one\ntwo\ntwo\n\ndraft".utf8)
        for (key, line) in [
            (Self.up, "two"), (Self.up, "one"), (Self.up, "one"), (Self.down, "two"), (Self.down, "draft"),
            (Self.down, "draft"),
        ] {
            _ = editor.take(key.utf8)
            #expect(editor.before == line)
        }
        for number in 0..<1000 { _ = editor.take("\(number)\n".utf8) }
        for _ in 0..<1000 { _ = editor.take(Self.up.utf8) }
        #expect(editor.before == "\(1000 - LineEditor.historyLimit)")
    }

    @Test("Unknown sequences have no effect, and a control character ends a sequence that is not complete")
    func unknown() {
        #expect(edited("a", "\u{1b}[15~\u{1b}[Z\u{1b}OQ\u{1b}x\u{1b}[<0;1;1M", "b").before == "ab")
        var editor = LineEditor()
        #expect(editor.take("a\u{1b}[1;\nb".utf8) == [.line("a")])
        #expect(editor.before == "b")
        _ = editor.take(("\u{1b}[" + String(repeating: "1", count: 100_000) + "Hc").utf8)
        #expect(editor.before == "bc")
    }

    @Test("Bytes that are not UTF-8, and controls that are, never reach the line as they are")
    func invalid() {
        var editor = LineEditor()
        _ = editor.take([0x61, 0xff, 0xc3, 0x62, 0xe4, 0xb8, 0x63, 0xc0, 0xaf, 0x80])
        #expect(editor.before.hasPrefix("a\u{fffd}\u{fffd}b\u{fffd}c"))
        #expect(editor.before.unicodeScalars.allSatisfy { $0 == "\u{fffd}" || "abc".unicodeScalars.contains($0) })
        // C1 controls, and marks of text direction.
        _ = editor.take("\u{15}\u{9b}\u{202e}x".utf8)
        #expect(editor.before == "x")
    }

    @Test("The line has a limit, at which further characters are ignored")
    func limit() {
        var editor = LineEditor()
        #expect(editor.take([UInt8](repeating: 0x61, count: LineInput.longestLine)).isEmpty)
        #expect(editor.take("bc".utf8) == [.full])
        #expect(editor.before.utf8.count == LineInput.longestLine)
        #expect(editor.take("\u{7f}d".utf8).isEmpty && editor.before.hasSuffix("ad"))
    }

    @Test("The drawn row fits the columns, shows the cursor, and counts wide characters twice")
    func drawing() {
        var drawn = edited("ab世界").drawn(columns: 20)
        #expect(drawn.row == "> ab世界" && drawn.cursor == 8)
        drawn = edited("ab世界", Self.left).drawn(columns: 20)
        #expect(drawn.row == "> ab世界" && drawn.cursor == 6)
        drawn = edited("0123456789世界").drawn(columns: 10)
        #expect(drawn.row == "> 789世界" && drawn.cursor == 9)
        drawn = edited("0123456789世界", "\u{1}").drawn(columns: 10)
        #expect(drawn.row == "> 0123456" && drawn.cursor == 2)
        for columns in 1...30 {
            for text in ["世界世界世界世界世界", "a世a世a世a世a世a世", "e\u{301}e\u{301}👩‍👩‍👧👩‍👩‍👧"] {
                for moves in 0...6 {
                    let editor = edited(text, String(repeating: Self.left, count: moves))
                    let (row, cursor) = editor.drawn(columns: columns)
                    #expect(row.columns < max(columns, 6) && cursor <= row.columns)
                }
            }
        }
    }
}

@Suite("Columns of a terminal")
struct DisplayWidthTests {
    @Test(
        "Letters take one column, wide characters and emoji two, and marks none",
        arguments: [
            ("a", 1), ("é", 1), ("e\u{301}", 1), ("ß", 1), ("я", 1), ("世", 2), ("ｶ", 1), ("カ", 2), ("한", 2), ("ﬀ", 1),
            ("👋", 2), ("👩‍👩‍👧", 2), ("❤\u{fe0f}", 2), ("❤", 1), ("\u{200b}", 0), ("！", 2), ("→", 1), ("✓", 1), ("🇩🇪", 2),
        ]
    )
    func widths(text: String, columns: Int) {
        #expect(text.columns == columns)
    }
}
