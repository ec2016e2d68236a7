import CommandSupport
import Foundation

/// A line on the screen of a chat. A text of several lines has several rows.
enum ChatLine: Sendable, Hashable {
    /// A message of the user, with its number, and when it was sent, in milliseconds since the Unix epoch.
    case own(UInt64, sender: String, text: String, atMs: Int64 = 0)
    /// A message of another member, with the time that its sender names.
    case other(sender: String, text: String, atMs: Int64 = 0)
    /// The server has acknowledged a message.
    case acknowledged(UInt64)
    /// The program of a member has shown it, as the first or the last one. So many of the other members have read it.
    case read(UInt64, by: String, count: Int, of: Int)
    /// It was not sent.
    case failed(UInt64, String)
    /// A status of the chat.
    case status(String)

    /// How many characters (Unicode scalars) of a name, and of a text, are shown, and how many rows of a text.
    static let (senderLimit, textLimit, rowLimit) = (64, 1 << 16, 100)

    /// The rows without the last end of line.
    var text: String { Self.rows(words) }

    /// The text with its ends of lines as they are.
    var words: String {
        switch self {
        case .own(let number, let sender, let text, _): "#\(number) \(sender): \(text)"
        case .other(let sender, let text, _): "\(Self.printable(sender, limit: Self.senderLimit)): \(text)"
        case .acknowledged(let number): "✓ #\(number)"
        case .read(let number, let person, let count, let all):
            "✓✓ #\(number) \(Self.printable(person, limit: Self.senderLimit)), \(Self.readers(count, all))"
        case .failed(let number, let reason): "✗ #\(number) not sent: \(Self.printable(reason))"
        case .status(let text): "· \(text)"
        }
    }

    /// How many of the other members have read a message.
    static func readers(_ count: Int, _ all: Int) -> String { "read by \(count) of \(all)" }

    /// How many bytes of texts it has.
    var size: Int {
        switch self {
        case .own(_, let sender, let text, _), .other(let sender, let text, _): sender.utf8.count + text.utf8.count
        case .read(_, let text, _, _), .failed(_, let text), .status(let text): text.utf8.count
        case .acknowledged: 0
        }
    }

    /// Replaces control characters and marks of text direction, because text of others must not control the terminal.
    static func printable(_ text: String, limit: Int = textLimit) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(limit) { result.append(printable(scalar)) }
        return String(result)
    }

    private static func printable(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        switch scalar.value {
        case 0..<0x20, 0x7f..<0xa0, 0x202a...0x202e, 0x2066...0x2069, 0x2028, 0x2029: "\u{fffd}"
        default: scalar
        }
    }

    /// The rows of a text, printable. All but the first are indented and have a bar, so that no text of others can look
    /// like a line of its own.
    static func rows(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        var count = 1
        for scalar in text.unicodeScalars.prefix(textLimit) {
            switch scalar {
            // Some programs end lines with CR LF.
            case "\r": continue
            case "\n":
                count += 1
                guard count <= rowLimit else { return String(result) + " …" }
                result.append(contentsOf: "\n  | ".unicodeScalars)
            default: result.append(printable(scalar))
            }
        }
        return String(result)
    }

    /// The part of a text that is shown.
    static func cut(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.prefix(textLimit)))
    }
}

extension ChatLine {
    /// The text for a terminal: with a time, and in colour if the style is on.
    ///
    /// - Parameter now: the present, in milliseconds since the Unix epoch. Lines that are no messages have this time.
    func styled(_ style: Style, now: Int64) -> String {
        switch self {
        case .own(let number, let sender, let text, let time):
            let start = stamp(time, style, now) + style.dim("#\(number)") + " " + style.bold(sender)
            return start + ": " + Self.rows(text)
        case .other(let sender, let text, let time):
            let name = Self.printable(sender, limit: Self.senderLimit)
            return stamp(time, style, now) + style.colour(Self.colour(of: name), name) + ": " + Self.rows(text)
        case .acknowledged: return stamp(now, style, now) + style.dim(self.text)
        case .read: return stamp(now, style, now) + style.green(self.text)
        case .failed: return stamp(now, style, now) + style.red(self.text)
        case .status: return stamp(now, style, now) + style.dim(self.text)
        }
    }

    private func stamp(_ time: Int64, _ style: Style, _ now: Int64) -> String {
        style.dim(Self.clock(time, now: now)) + " "
    }

    /// The time of day in the user's time zone, with the date if that is not today's. The time 0 of a message without one,
    /// and times outside the years 1970 to 9999, become dashes.
    static func clock(_ time: Int64, now: Int64) -> String {
        guard let date = calendar(time) else { return "--:--" }
        let isToday = calendar(now).map { $0.tm_year == date.tm_year && $0.tm_yday == date.tm_yday } ?? false
        let minutes = "\(twoDigits(date.tm_hour)):\(twoDigits(date.tm_min))"
        guard !isToday else { return minutes }
        return "\(Int(date.tm_year) + 1900)-\(twoDigits(date.tm_mon + 1))-\(twoDigits(date.tm_mday)) \(minutes)"
    }

    private static func calendar(_ milliseconds: Int64) -> tm? {
        guard (1...253_402_300_799_000).contains(milliseconds) else { return nil }
        var (seconds, date) = (time_t(milliseconds / 1000), tm())
        return localtime_r(&seconds, &date) == nil ? nil : date
    }

    private static func twoDigits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// The colour of a member: the same in every program and on every day, and never red, which stands for failures.
    private static func colour(of name: String) -> Int {
        2 + Int(name.utf8.reduce(UInt32(2_166_136_261)) { ($0 ^ UInt32($1)) &* 16_777_619 } % 5)
    }
}
