import Codecs
import Foundation

extension ChatMessage {
    /// When the message was sent. It is `sentAtMs`, so it has whole milliseconds. A date that `sentAtMs` cannot represent
    /// becomes the nearest that it can.
    public var sentAt: Date {
        get { Date(timeIntervalSince1970: Double(sentAtMs) / 1000) }
        set {
            let milliseconds = (newValue.timeIntervalSince1970 * 1000).rounded()
            // Int64.max as a Double is 2^63, which does not fit.
            sentAtMs = Int64(exactly: milliseconds) ?? (milliseconds < 0 ? .min : .max)
        }
    }
}
