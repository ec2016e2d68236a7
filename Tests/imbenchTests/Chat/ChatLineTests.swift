import Foundation
import Testing

@testable import imbench

@Suite("A line of the chat on a terminal")
struct ChatLineTests {
    private static let now: Int64 = 1_767_225_600_000
    private static let lines: [ChatLine] = [
        .own(1, sender: "ann", text: "hi", atMs: now), .other(sender: "bob", text: "ho", atMs: now),
        .acknowledged(1),
        .confirmed(1, by: "bob"), .failed(2, "too large"), .status("open"),
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

    @Test("Texts, names and reasons of others carry no control characters to the terminal")
    func harmless() {
        let evil = "\u{1b}[2J\u{9b}1A\r\n\u{7}\u{202e}x"
        let lines: [ChatLine] = [
            .own(1, sender: "ann", text: evil, atMs: 1), .other(sender: evil, text: evil, atMs: 1),
            .confirmed(1, by: evil), .failed(1, evil), .status(evil),
        ]
        for line in lines {
            let text = line.styled(.none, now: Self.now)
            #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) })
            #expect(!text.unicodeScalars.contains("\u{202e}"))
        }
    }
}
