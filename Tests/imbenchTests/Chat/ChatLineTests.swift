import Foundation
import Testing

@testable import CommandSupport
@testable import imbench

@Suite("A line of the chat on a terminal")
struct ChatLineTests {
    private static let now: Int64 = 1_767_225_600_000
    private static let lines: [ChatLine] = [
        .own(1, sender: "ann", text: "hi", atMs: now), .other(sender: "bob", text: "ho", atMs: now),
        .acknowledged(1),
        .read(1, by: "bob", count: 1, of: 2), .failed(2, "too large"), .status("open"),
    ]

    @Test("Each line begins with the time of day, and a line of another day with the date")
    func times() {
        for line in Self.lines {
            let text = line.styled(.none, now: Self.now)
            #expect(text.wholeMatch(of: /[0-2][0-9]:[0-5][0-9] .*/) != nil)
            #expect(text.hasSuffix(line.text))
        }
        let old = ChatLine.other(sender: "bob", text: "ho", atMs: Self.now - 400 * 86_400_000)
        #expect(old.styled(.none, now: Self.now).wholeMatch(of: /2024-11-\d\d \d\d:\d\d bob: ho/) != nil)
    }

    @Test("A message without a time, or with one that no calendar has, is shown without it")
    func noTime() {
        for time in [0, Int64.max, Int64.min] {
            let line = ChatLine.other(sender: "bob", text: "ho", atMs: time)
            #expect(line.styled(.none, now: Self.now) == "--:-- bob: ho")
        }
    }

    @Test("Colour surrounds the text and does not change it, and without colour there is no escape sequence")
    func colour() {
        let on = Style(isOn: true)
        for line in Self.lines {
            let (plain, coloured) = (line.styled(.none, now: Self.now), line.styled(on, now: Self.now))
            #expect(!plain.contains("\u{1b}") && coloured.contains("\u{1b}"))
            #expect(coloured.replacing(/\u{1b}\[[0-9;]*m/, with: "") == plain)
        }
    }

    @Test(
        "A text of several lines has indented rows, so that none looks like a line of its own, and not too many of them"
    )
    func rows() {
        let text = "Soup\r\n23:59 bob: Salad\n✓✓ #1 bob"
        let line = ChatLine.other(sender: "eve", text: text, atMs: Self.now)
        #expect(line.text == "eve: Soup\n  | 23:59 bob: Salad\n  | ✓✓ #1 bob")
        #expect(line.styled(.none, now: Self.now).hasSuffix(" " + line.text))
        #expect(ChatLine.own(1, sender: "ann", text: "a\nb").text == "#1 ann: a\n  | b")
        #expect(ChatLine.other(sender: "a\nb", text: "x").text == "a\u{fffd}b: x")
        let high = ChatLine.other(sender: "eve", text: String(repeating: "\n", count: 1000))
        #expect(high.text.split(separator: "\n").count == ChatLine.rowLimit && high.text.hasSuffix(" …"))
    }

    @Test("Texts, names and reasons of others carry no control characters to the terminal")
    func harmless() {
        let evil = "\u{1b}[2J\u{9b}1A\r\n\u{7}\u{202e}x"
        let lines: [ChatLine] = [
            .own(1, sender: "ann", text: evil, atMs: 1), .other(sender: evil, text: evil, atMs: 1),
            .read(1, by: evil, count: 1, of: 1), .failed(1, evil), .status(evil),
        ]
        for line in lines {
            // Each row but the first is marked as one of the same line.
            let text = line.styled(.none, now: Self.now).replacing("\n  | ", with: "")
            #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) })
            #expect(!text.unicodeScalars.contains("\u{202e}"))
        }
    }
}
